BEGIN TRANSACTION;
CREATE TABLE budget (name TEXT NOT NULL, value TEXT NOT NULL);
INSERT INTO "budget" VALUES('id','"fb2169d582f648988ff3bba9839b07a0"');
INSERT INTO "budget" VALUES('accounting','1');
INSERT INTO "budget" VALUES('created','"2026-11-29T00:26:04+00:00"');
INSERT INTO "budget" VALUES('epsilon','4.0');
INSERT INTO "budget" VALUES('delta','1e-06');
INSERT INTO "budget" VALUES('adaptive','true');
CREATE TABLE head (number INTEGER NOT NULL, hash TEXT NOT NULL);
INSERT INTO "head" VALUES(2,'d743bc5ab8d84ea5a270de9432a20c6c756c7148120960d94fe040103aefbdb1');
CREATE TABLE releases (
    number INTEGER PRIMARY KEY,
    time TEXT NOT NULL,
    label TEXT NOT NULL,
    guarantee TEXT,
    sentences TEXT NOT NULL,
    limits TEXT,
    versions TEXT NOT NULL,
    hash TEXT NOT NULL
);
INSERT INTO "releases" VALUES(1,'2026-11-29T00:26:04+00:00','fit of CPCompletion','{"epsilon": 0.6857819761414132, "delta": 1e-06, "unit": 0, "relation": "add-or-remove", "source": "Balle and Wang (2018), Theorem 8", "conditions": [], "local": null, "event": {"type": "dp_accounting.GaussianDpEvent", "noise_multiplier": 6.0}}','[]','[0.6879493953306063, 2.0, -1.0]','sktensordp 0.1.0, dp-accounting 0.6.0','4bb944b2c05b80e7167a841c9213b0f617d0c571955c944dcc26b6f75be68cea');
INSERT INTO "releases" VALUES(2,'2026-11-29T00:26:04+00:00','a survey','{"epsilon": 0.6857819761414132, "delta": 1e-06, "unit": 0, "relation": "add-or-remove", "source": "Balle and Wang (2018), Theorem 8", "conditions": [], "local": null, "event": {"type": "dp_accounting.GaussianDpEvent", "noise_multiplier": 6.0}}','[]',NULL,'sktensordp 0.1.0, dp-accounting 0.6.0','d743bc5ab8d84ea5a270de9432a20c6c756c7148120960d94fe040103aefbdb1');
COMMIT;

"""Private solvers, one module for each perturbation, behind one interface."""

"""What may be released in a process, what was, and what was authorised beforehand."""

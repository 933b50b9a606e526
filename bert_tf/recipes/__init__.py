"""Complete configurations of runs: each says its command, hardware, time and what to expect."""

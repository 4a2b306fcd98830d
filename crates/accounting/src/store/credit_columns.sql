id integer PRIMARY KEY, username text NOT NULL, bank text NOT NULL, kind text NOT NULL CHECK (kind IN ('add', 'set')),
amount text NOT NULL, unit text NOT NULL,
usage real NOT NULL CHECK (typeof(usage) = 'real' AND abs(usage) <= 1e30),
live_usage real NOT NULL CHECK (typeof(live_usage) = 'real' AND abs(live_usage) <= 1e30),
counts_from real NOT NULL CHECK (typeof(counts_from) = 'real' AND abs(counts_from) <= 1e12),
reason text NOT NULL, author text NOT NULL,
created real NOT NULL CHECK (typeof(created) = 'real' AND abs(created) <= 1e12)

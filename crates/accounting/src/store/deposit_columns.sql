id INTEGER PRIMARY KEY, scope TEXT NOT NULL CHECK (scope IN ('association', 'bank', 'user')),
name TEXT NOT NULL CHECK (typeof(name) = 'text'),
unit TEXT NOT NULL CHECK (unit IN ('node-hours', 'core-hours', 'gpu-hours')),
milliseconds INTEGER NOT NULL
    CHECK (typeof(milliseconds) = 'integer' AND milliseconds BETWEEN -1000000000000000000 AND 1000000000000000000),
start INTEGER NOT NULL CHECK (typeof(start) = 'integer' AND start >= 0),
"end" INTEGER NOT NULL CHECK (typeof("end") = 'integer' AND "end" > start AND "end" <= 100000000000),
reason TEXT NOT NULL CHECK (typeof(reason) = 'text'), author TEXT NOT NULL CHECK (typeof(author) = 'text'),
created INTEGER NOT NULL CHECK (typeof(created) = 'integer'), job TEXT NOT NULL CHECK (typeof(job) = 'text')

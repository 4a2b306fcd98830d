# SPDX-License-Identifier: LGPL-3.0-only
"""Times rec_update of N associations."""
import sys

from bench import association, best, call, show

n = int(sys.argv[1])
records = [association(100000 + i, fairshare=0.25) for i in range(n)]
show(f"rec_update of {n} new associations", call("rec_update", records))
changed = [association(100000 + i, fairshare=0.75) for i in range(n)]
show(f"rec_update of {n} changed associations (best of 3)", best([call("rec_update", changed), call("rec_update", records), call("rec_update", changed)]))

#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='limits over scopes in a running Flux: GPUs per user and per bank, over several queues'

# A sequence: each test works with what those before it made.
. "$(dirname "$0")/lib.sh"

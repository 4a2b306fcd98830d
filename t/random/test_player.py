# SPDX-License-Identifier: LGPL-3.0-only
"""Tests how the player runs the embedded job manager."""
import faulthandler
import os
import tempfile
import unittest

from player_embedded import Player

# At the end of its input, this command prints more than a pipe holds.
COMMAND = """#!/bin/sh
cat >/dev/null
head -c 200000 /dev/zero | tr '\\0' x
exit 0
"""


class End(unittest.TestCase):
    """The end of a history."""

    def setUp(self):
        # If the player waits indefinitely, this ends the test.
        faulthandler.dump_traceback_later(30, exit=True)
        self.addCleanup(faulthandler.cancel_dump_traceback_later)

    def test_a_command_with_a_long_output_ends(self):
        with tempfile.TemporaryDirectory() as directory:
            command = os.path.join(directory, "command")
            with open(command, "w", encoding="utf-8") as stream:
                stream.write(COMMAND)
            os.chmod(command, 0o700)
            player = Player({}, {}, command, "", "", directory)
            self.assertIsNone(player.end())
            player.kill()


if __name__ == "__main__":
    unittest.main()

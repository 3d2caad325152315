"""The examples' states on storage: whole, or not there. Needs no PyTorch."""

import pathlib
import sys
import tempfile
import unittest

from fixture import CLIENT, load

sys.path.insert(0, str(CLIENT))
example = load("states", CLIENT / "examples" / "states.py")


class StateTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name) / "job"

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())

    def test_newest_is_the_highest_step_and_older_states_go(self):
        self.assertIsNone(example.newest(self.folder))
        for step in (8, 9, 10, 11):
            example.save(self.folder, step, lambda file: file.write(b"%d" % step), keep=2)
        self.assertEqual(self.names(), ["step-00000010.pt", "step-00000011.pt"])
        self.assertEqual(example.newest(self.folder).read_bytes(), b"11")

    def test_a_save_that_does_not_end_leaves_the_state_before(self):
        example.save(self.folder, 1, lambda file: file.write(b"one"))

        def fail(file):
            file.write(b"half")
            raise OSError("no space left on device")

        self.assertRaises(OSError, example.save, self.folder, 2, fail)
        self.assertEqual(example.newest(self.folder).read_bytes(), b"one")
        example.save(self.folder, 3, lambda file: file.write(b"three"))
        self.assertEqual(self.names(), ["step-00000001.pt", "step-00000003.pt"])


if __name__ == "__main__":
    unittest.main()

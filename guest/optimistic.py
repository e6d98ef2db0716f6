"""What a store in optimistic mode may lack behind a cut of the power, by what programs in the guest said before (at_work.py, on its clock).

A program says `STREAM NUMBER BEGAN RETURNED`, in milliseconds, for each record, and `dsync` in place of the stream when it waited for the disk.
The power goes at some time behind the last thing that was said.
"""

BOUND_MS = 50
# For what the disk needs itself, and the clocks' grain: a guest is some twenty times slower than its host, its disk's cache is the host's.
DISK_MS = 250


class Heard:
    """What was said by the programs of one guest."""

    def __init__(self):
        self.records, self.waited_ms = {}, 0

    def hear(self, line):
        """Whether the line, which may be cut off, says that something returned."""
        words = line.split()
        if len(words) != 5 or words[0] not in ('log', 'sqlite', 'dsync') or words[4] != 'ms':
            return False
        number, began_ms, returned_ms = map(float, words[1:4])
        if words[0] == 'dsync':
            self.waited_ms = began_ms
        else:
            self.records.setdefault(words[0], []).append((int(number), began_ms, returned_ms))
        return True

    def count(self):
        return sum(map(len, self.records.values()))

    def wrong(self, found, before):
        """Why this cannot be left: `found` and, before this guest, `before` have the number of records of each stream."""
        there, lost = [], []
        for stream, records in self.records.items():
            for number, began_ms, returned_ms in records:
                (there if number < found[stream] else lost).append((stream, number, began_ms, returned_ms))
        last_ms = max((began_ms for _, _, began_ms, _ in there), default=0)
        for stream in found:
            said = [number + 1 for number, _, _ in self.records.get(stream, [])]
            if not before[stream] <= found[stream] <= max(said, default=before[stream]) + 1:
                return f'{stream}: {found[stream]} records, of {before[stream]} to {max(said, default=before[stream]) + 1}'
        for stream, number, _, returned_ms in lost:
            if returned_ms < last_ms:
                return f'{stream} {number} is lost, and a record is there that began {last_ms - returned_ms:.3f} ms later'
            if returned_ms < self.waited_ms:
                return f'{stream} {number} is lost, and a dsync that began later has returned'
            late_ms = self.records[stream][-1][1] - returned_ms
            if late_ms > BOUND_MS + DISK_MS:
                return f'{stream} {number} is lost, and its program went on for {late_ms:.3f} ms'
        return None

    def oldest_lost_ms(self, found):
        """For how long the oldest record that is lost had returned when its program began the last one."""
        return max((records[-1][1] - returned_ms for stream, records in self.records.items()
                    for number, _, returned_ms in records if number >= found[stream]), default=0)

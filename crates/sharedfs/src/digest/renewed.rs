//! Files that had lost content with a damaged log ([`Lost`](crate::damage::Lost)), and are whole again by what a batch did to them.

use super::batch::Digester;
use super::log_view::LogView;
use super::storage::Storage;
use cuesta_format::LogPosition;
use cuesta_format::entry::EntryKind;
use cuesta_oplog::{ScanStep, Scanner};

impl Digester {
    /// Takes note of those that the batch up to `to`, which was committed, removed, cut or wrote over as a whole.
    pub(super) fn note_renewed(&mut self, storage: &Storage<'_>, log: &LogView, to: LogPosition) {
        let (view, _, _, bytes) = self.parts();
        let mut scanner = Scanner::new(bytes, log.from, log.salt, &log.files.geometry);
        while scanner.position() < to
            && let ScanStep::Entry(header, _) = scanner.step()
        {
            let fields = header.fields();
            if fields.kind == EntryKind::Truncate {
                storage.lost.cut(fields.inode, fields.argument);
            }
        }
        for node in view.nodes().iter().filter(|node| node.changed) {
            let (inode, size) = (node.record.inode, node.before.map_or(0, |before| before.size));
            let covers = |end| storage.lost.size_of(inode).is_some_and(|lost| end >= lost.max(size));
            if node.removed || view.pieces(node).any(|part| part.start == 0 && covers(part.end)) {
                storage.lost.cut(inode, 0);
            }
        }
        storage.lost.settle();
    }
}

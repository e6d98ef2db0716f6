//! Memory nodes: which a machine has, which one a process runs on, and on which one a file's memory is to lie or lies.
//!
//! On a machine with one node nothing is asked and nothing set. Where the kernel refuses (a container's filter may), it is as on such
//! a machine: memory lies where it would have, and its node is unknown.
//!
//! rustix has none of it, and the calls are made as in `aio`.

use super::mapping::Mapping;
use super::node::Node;
use super::pages::Protection;
use cuesta_format::Medium;
use rustix::fd::AsFd;
use std::ops::RangeInclusive;
use std::path::Path;
use std::ptr::null_mut;
use syscalls::{Sysno, raw_syscall};

/// `MPOL_F_NODE | MPOL_F_ADDR`: the node of the page at an address.
const NODE_OF_ADDRESS: usize = 1 | 2;
/// Where the processor that a process last ran on is in `/proc/PID/stat`, counted from the field behind the program's name.
const STAT_PROCESSOR: usize = 39 - 3;

/// The nodes a program can run on, if the machine has several nodes; else none.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    processors: Vec<(Node, Vec<RangeInclusive<u32>>)>,
}

impl Nodes {
    /// Those of this machine.
    #[must_use]
    pub fn of_machine() -> Nodes {
        Nodes::described_in(Path::new("/sys/devices/system/node"))
    }

    fn described_in(folder: &Path) -> Nodes {
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        let online: Vec<u32> = numbers(&read("online")).into_iter().flatten().collect();
        if online.len() < 2 {
            return Nodes::default();
        }
        let processors =
            online.iter().map(|&node| (Node(node), numbers(&read(&format!("node{node}/cpulist")))));
        Nodes { processors: processors.filter(|(_, processors)| !processors.is_empty()).collect() }
    }

    /// Whether there are several nodes.
    #[must_use]
    pub fn are_several(&self) -> bool {
        !self.processors.is_empty()
    }

    /// All that a program can run on.
    pub fn all(&self) -> impl Iterator<Item = Node> {
        self.processors.iter().map(|&(node, _)| node)
    }

    /// That of the processor which a process (its first thread) last ran on.
    #[must_use]
    pub fn of_process(&self, pid: u32) -> Option<Node> {
        if !self.are_several() {
            return None;
        }
        let processor = last_processor(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
        let has_it = |ranges: &[RangeInclusive<u32>]| ranges.iter().any(|range| range.contains(&processor));
        self.processors.iter().find(|(_, ranges)| has_it(ranges)).map(|&(node, _)| node)
    }

    /// That which the first page of a file's memory lies on.
    #[must_use]
    pub fn of_file(&self, file: impl AsFd) -> Option<Node> {
        if !self.are_several() {
            return None;
        }
        let page = rustix::param::page_size() as u64;
        self.at(&Mapping::of_file(file, 0, page, Protection::ReadOnly, Medium::Memory, false).ok()?, 0)
    }

    /// That which the page at `offset` of a mapping lies on. It gets its memory, if it has none.
    #[must_use]
    pub fn at(&self, mapping: &Mapping, offset: u64) -> Option<Node> {
        if !self.are_several() || offset >= mapping.len() {
            return None;
        }
        let mut node = 0_u32;
        // SAFETY: the kernel writes the one word it is given, and looks at the page, which is inside the mapping, as was checked, and mapped for as long as that lives.
        let answer = unsafe {
            let address = mapping.as_ptr().add(offset as usize);
            raw_syscall!(Sysno::get_mempolicy, &raw mut node, null_mut::<u8>(), 0, address, NODE_OF_ADDRESS)
        };
        (answer == 0).then_some(Node(node))
    }
}

/// Lists as the kernel writes them: `0-3,8`.
fn numbers(list: &str) -> Vec<RangeInclusive<u32>> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.trim().split(',').filter_map(range).collect()
}

/// A program's name may hold blanks and parentheses.
fn last_processor(stat: &str) -> Option<u32> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(STAT_PROCESSOR)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::node::NODES_MAX;

    #[test]
    fn one_node_is_as_none() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!Nodes::described_in(folder.path()).are_several());
        for online in ["0\n", "1\n", "\n"] {
            std::fs::write(folder.path().join("online"), online).unwrap();
            let nodes = Nodes::described_in(folder.path());
            assert!(!nodes.are_several());
            assert_eq!(nodes.of_process(std::process::id()), None);
        }
    }

    #[test]
    fn a_process_is_where_its_processor_is() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("online"), "0,2-3\n").unwrap();
        // The last one has memory alone.
        for (node, processors) in [(0, "0-1,1000\n"), (2, "2-999\n"), (3, "\n")] {
            std::fs::create_dir(folder.path().join(format!("node{node}"))).unwrap();
            std::fs::write(folder.path().join(format!("node{node}/cpulist")), processors).unwrap();
        }
        let nodes = Nodes::described_in(folder.path());
        assert_eq!(nodes.all().collect::<Vec<_>>(), [Node(0), Node(2)]);
        assert!(nodes.of_process(std::process::id()).is_some());
        assert_eq!(nodes.of_process(u32::MAX), None);
    }

    #[test]
    fn the_processor_is_found_behind_any_name() {
        let stat = |name: &str| format!("7 ({name}) S {} 23 0 0\n", "1 ".repeat(35).trim());
        assert_eq!(last_processor(&stat("sh")), Some(23));
        assert_eq!(last_processor(&stat("a) R (b")), Some(23));
        assert_eq!(last_processor("7 (sh) S 1"), None);
    }

    #[test]
    fn memory_lies_on_a_node() {
        let file = crate::create_sparse(&tempfile::tempdir().unwrap().path().join("file"), 1 << 20).unwrap();
        let mapping =
            Mapping::of_file(&file, 0, 1 << 20, Protection::ReadWrite, Medium::Memory, false).unwrap();
        mapping.prefer(Node(0));
        mapping.prefer(Node(NODES_MAX));
        mapping.touch(0, 1 << 20).unwrap();
        assert_eq!(Nodes::default().of_file(&file), None);
    }
}

//! Allocations of the hot paths (none), and of making a file.
//!
//! The test counts on the calling thread. SharedFS runs on that thread, too, when it answers a question, and
//! its allocations do not count.

mod common;

use common::{Caller, Store, root};
use cuesta_format::Geometry;
use cuesta_format::wire::{Request, Response};
use cuesta_libfs::{Base, Client, Link, LinkError, OpenFile, Whence};
use libc::{O_CREAT, O_EXCL, O_RDWR, O_WRONLY};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::sync::Arc;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that ends allocates after its variables are gone.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: our caller keeps the allocator's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: our caller keeps the allocator's contract.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count();
        // SAFETY: our caller keeps the allocator's contract.
        unsafe { System.realloc(memory, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A link whose other side is not counted.
struct Uncounted<L>(L);

impl<L: Link> Uncounted<L> {
    fn aside<R>(&mut self, act: impl FnOnce(&mut L) -> R) -> R {
        let before = ALLOCATIONS.get();
        let result = act(&mut self.0);
        ALLOCATIONS.set(before);
        result
    }
}

impl<L: Link> Link for Uncounted<L> {
    fn call(&mut self, request: &Request, descriptors: &mut Vec<OwnedFd>) -> Result<Response, LinkError> {
        self.aside(|link| link.call(request, descriptors))
    }

    fn post(&mut self, request: &Request) -> Result<bool, LinkError> {
        self.aside(|link| link.post(request))
    }

    fn collect(&mut self, wait: bool) -> Result<Option<Response>, LinkError> {
        self.aside(|link| link.collect(wait))
    }
}

fn attach(store: &Store) -> Arc<Client> {
    Client::attach(Box::new(Uncounted(store.link())), "test").unwrap()
}

const ROUNDS: u64 = 2000;
const PAGES: u64 = 256;

/// Allocations of `ROUNDS` operations.
fn allocations(mut operation: impl FnMut(u64)) -> u64 {
    let before = ALLOCATIONS.get();
    (0..ROUNDS).for_each(&mut operation);
    ALLOCATIONS.get() - before
}

/// Digests in the middle of the work. `operation` then takes the report and begins to retire the log.
fn digest_amid(store: &Store, mut operation: impl FnMut(u64)) {
    (0..2 * ROUNDS).for_each(&mut operation);
    store.shared.digest_step().unwrap();
    (0..ROUNDS).for_each(&mut operation);
}

fn append(call: &Caller, file: &OpenFile) {
    call.client.write(file, &[[7; 128].as_slice().into()]).unwrap();
    call.client.fsync(file).unwrap();
}

#[test]
fn writing_and_reading_allocate_nothing() {
    let store = Store::new(Geometry { nvm_bytes: 256 << 20, ..Geometry::default() });
    let client = attach(&store);
    let call = root(&client);
    let appended = call.open("appended", O_CREAT | O_WRONLY).unwrap();
    digest_amid(&store, |_| append(&call, &appended));
    assert_eq!(allocations(|_| append(&call, &appended)), 0, "append");

    let paged = call.open("paged", O_CREAT | O_RDWR).unwrap();
    let mut page = [3; 4096];
    let overwrite = |round: u64| {
        // Every page, in an order that is not the file's.
        let at = (round * 97 % PAGES * 4096) as i64;
        client.pwrite(&paged, &[page.as_slice().into()], at).unwrap();
        client.fsync(&paged).unwrap();
    };
    digest_amid(&store, overwrite);
    assert_eq!(allocations(overwrite), 0, "overwrite");

    client.digest().unwrap();
    let mut read = |round: u64| {
        let at = (round * 97 % PAGES * 4096) as i64;
        client.pread(&paged, &mut [page.as_mut_slice().into()], at).unwrap();
    };
    (0..PAGES).for_each(&mut read);
    assert_eq!(allocations(read), 0, "pread");
    let seek = |round| assert_eq!(client.seek(&paged, round as i64, Whence::Set).unwrap(), round);
    assert_eq!(allocations(seek), 0, "lseek");
    let size = PAGES * 4096;
    assert_eq!(allocations(|_| assert_eq!(client.stat_open(&paged).unwrap().record.size, size)), 0, "fstat");
    let stat = |_| {
        let stat = client.stat(&common::ROOT, Base::Root, b"paged", true).unwrap();
        assert_eq!(stat.record.size, size);
    };
    assert_eq!(allocations(stat), 0, "stat");
}

/// Names of up to 30 bytes are stored inline. The table that holds them grows now and then.
#[test]
fn making_a_file_allocates_its_inode_and_its_open_file() {
    let store = Store::new(Geometry { nvm_bytes: 256 << 20, ..Geometry::default() });
    let client = attach(&store);
    let call = root(&client);
    let name = |round: u64| {
        let mut name = *b"0000000000";
        name.iter_mut().rev().zip(0..).for_each(|(digit, at)| *digit += (round / 10u64.pow(at) % 10) as u8);
        name
    };
    let credentials = &common::ROOT;
    let page = [5; 4096];
    let make = |round: u64| {
        let file =
            client.open(credentials, Base::Root, &name(round), O_CREAT | O_EXCL | O_WRONLY, 0o644).unwrap();
        client.write(&file, &[page.as_slice().into()]).unwrap();
        client.fsync(&file).unwrap();
        client.close(file).unwrap();
    };
    let rename = |round: u64| {
        let (old, new) = (name(round), name(round + 1_000_000));
        client.rename(credentials, (Base::Root, &old), (Base::Root, &new), Default::default()).unwrap();
    };
    let unlink = |round: u64| client.unlink(credentials, Base::Root, &name(round + 1_000_000)).unwrap();
    // Asks for credit, and lets the tables grow to what follows.
    (0..ROUNDS).for_each(make);
    (0..ROUNDS).for_each(rename);
    (0..ROUNDS).for_each(unlink);
    client.digest().unwrap();
    assert!(call.list(".").unwrap().is_empty());

    let made = allocations(make);
    // How often it asks for more credit and numbers depends on the load, too.
    assert!((2 * ROUNDS..2 * ROUNDS + ROUNDS / 25).contains(&made), "create: {made} of {ROUNDS}");
    let renamed = allocations(rename);
    assert!(renamed <= ROUNDS / 50, "rename: {renamed} of {ROUNDS}");
    let unlinked = allocations(unlink);
    assert!(unlinked <= ROUNDS / 50, "unlink: {unlinked} of {ROUNDS}");
}

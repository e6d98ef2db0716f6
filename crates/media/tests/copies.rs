//! Copies at every alignment and length against a plain reference, and repair of faults at every boundary of
//! an unmapped page.

use crate::medium::medium;

use cuesta_media::persist::copy_non_temporal;
use cuesta_media::{
    AccessError, Fault, Mapping, Protection, UserSlice, UserSliceMut, Window, install_fault_handler,
    read_c_string,
};
use rustix::mm::{MapFlags, ProtFlags};

const PAGE: usize = 4096;

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251 + 1) as u8).collect()
}

/// Checks that `copy` moves exactly `len` bytes, for many places and lengths.
fn check_copies(copy: impl Fn(&mut [u8], &[u8])) {
    let source = pattern(400_000);
    let mut target = vec![0u8; 400_000];
    let small = (0..=300).flat_map(|len| (0..66).map(move |at| (len, at)));
    let large = [511, 4096, 4097, 16384 + 63, 262_144 + 5]
        .into_iter()
        .flat_map(|len| [(len, 0), (len, 1), (len, 63)]);
    for (len, at) in small.chain(large) {
        let skew = (at * 5 + len) % 67;
        target[..at + len + 64].fill(0xee);
        copy(&mut target[at..at + len], &source[skew..skew + len]);
        assert_eq!(target[at..at + len], source[skew..skew + len], "len {len} at {at}");
        assert!(target[..at].iter().all(|byte| *byte == 0xee), "before, len {len} at {at}");
        assert!(
            target[at + len..at + len + 64].iter().all(|byte| *byte == 0xee),
            "behind, len {len} at {at}"
        );
    }
}

#[test]
fn user_copies_move_every_length_at_every_alignment() {
    check_copies(|dst, src| UserSlice::from(src).copy_in(dst).unwrap());
    check_copies(|dst, src| UserSliceMut::from(dst).copy_out(src).unwrap());
}

#[test]
fn non_temporal_copies_move_every_length_at_every_alignment() {
    check_copies(|dst, src| {
        // SAFETY: both ranges are slices of the same length.
        let left = unsafe { copy_non_temporal(dst.as_mut_ptr(), src.as_ptr(), src.len()) };
        assert_eq!(left, 0);
    });
}

/// Two pages of which only the first is mapped; leaked, so that its addresses stay what they are.
fn page_before_a_hole() -> *mut u8 {
    // SAFETY: new addresses, and the second page is ours to take away.
    unsafe {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let base =
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), 2 * PAGE, access, MapFlags::PRIVATE).unwrap();
        rustix::mm::mprotect(base.cast::<u8>().add(PAGE).cast(), PAGE, rustix::mm::MprotectFlags::empty())
            .unwrap();
        base.cast()
    }
}

/// (bytes before the hole, bytes asked for) that cross it.
fn crossings() -> impl Iterator<Item = (usize, usize)> {
    let small = (0..=140).flat_map(|good| (1..=140).map(move |bad| (good, good + bad)));
    small.chain([(1000, 3000), (4096, 4097), (4095, 8000), (257, 600), (512, 1024)])
}

#[test]
fn a_source_that_ends_in_a_hole_faults_at_the_exact_byte() {
    install_fault_handler();
    let page = page_before_a_hole();
    // SAFETY: the first page is mapped and ours.
    let bytes = unsafe { std::slice::from_raw_parts_mut(page, PAGE) };
    bytes.copy_from_slice(&pattern(PAGE));
    let mut target = vec![0u8; 3 * PAGE];
    let start = target.as_ptr().align_offset(64);
    for (good, len) in crossings() {
        let src = page.wrapping_add(PAGE - good);
        // SAFETY: part of it is not mapped, and a handler is installed.
        let user = unsafe { UserSlice::new(src, len) };
        target[..len + 128].fill(0xee);
        assert_eq!(user.copy_in(&mut target[..len]), Err(Fault { copied: good }), "{good} of {len}");
        assert_eq!(target[..good], bytes[PAGE - good..]);
        assert!(target[len..len + 128].iter().all(|byte| *byte == 0xee));
        for skew in [0, 1, 40] {
            // SAFETY: the target is long enough, the source may fault.
            let left = unsafe { copy_non_temporal(target.as_mut_ptr().add(start + skew), src, len) };
            assert_eq!(left, len - good, "{good} of {len} at {skew}");
            assert_eq!(target[start + skew..start + skew + good], bytes[PAGE - good..]);
        }
    }
}

#[test]
fn a_target_that_ends_in_a_hole_faults_at_the_exact_byte() {
    install_fault_handler();
    let page = page_before_a_hole();
    let source = pattern(3 * PAGE);
    for (good, len) in crossings() {
        let dst = page.wrapping_add(PAGE - good);
        // SAFETY: part of it is not mapped, and a handler is installed.
        let mut user = unsafe { UserSliceMut::new(dst, len) };
        assert_eq!(user.copy_out(&source[..len]), Err(Fault { copied: good }), "{good} of {len}");
        // SAFETY: these bytes are mapped and ours.
        let written = unsafe { std::slice::from_raw_parts(dst, good) };
        assert_eq!(*written, source[..good]);
        assert_eq!(user.clear(), Err(Fault { copied: good }));
        // SAFETY: as above.
        let written = unsafe { std::slice::from_raw_parts(dst, good) };
        assert!(written.iter().all(|byte| *byte == 0));
    }
}

#[test]
fn null_and_wild_pointers_are_faults() {
    install_fault_handler();
    let mut buffer = [0u8; 700];
    for address in [0usize, 8, 1 << 46, usize::MAX - 4096] {
        for len in [1, 8, 100, 700] {
            // SAFETY: nothing is mapped there, and a handler is installed.
            let (from, mut to) = unsafe {
                (UserSlice::new(address as *const u8, len), UserSliceMut::new(address as *mut u8, len))
            };
            assert_eq!(from.copy_in(&mut buffer[..len]), Err(Fault { copied: 0 }));
            assert_eq!(to.copy_out(&buffer[..len]), Err(Fault { copied: 0 }));
        }
    }
}

#[test]
fn a_file_cut_short_behind_our_back_is_a_fault() {
    install_fault_handler();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("segment");
    let mapping = Mapping::create(&path, 2 * PAGE as u64, medium(), true).unwrap();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(PAGE as u64).unwrap();
    let mut buffer = [0u8; 64];
    mapping.read(0, &mut buffer).unwrap();
    let fault = AccessError::Fault(Fault { copied: 32 });
    assert_eq!(mapping.read(PAGE as u64 - 32, &mut buffer), Err(fault));
    assert_eq!(mapping.write_through(PAGE as u64 - 32, &buffer), Err(fault));
}

#[test]
fn an_empty_place_of_a_window_and_a_read_only_one_are_faults() {
    install_fault_handler();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("segment");
    drop(Mapping::create(&path, PAGE as u64, medium(), false).unwrap());
    let file = std::fs::File::open(&path).unwrap();
    let window = Window::reserve(4 * PAGE as u64, medium()).unwrap();
    window.map(&file, 0, PAGE as u64, PAGE as u64, Protection::ReadOnly, false).unwrap();
    let mut buffer = [0u8; 64];
    window.read(PAGE as u64, &mut buffer).unwrap();
    let fault = AccessError::Fault(Fault { copied: 0 });
    assert_eq!(window.read(0, &mut buffer), Err(fault));
    assert_eq!(window.write(PAGE as u64, &buffer), Err(fault));
    assert_eq!(window.write_through(3 * PAGE as u64, &buffer), Err(fault));
}

#[test]
fn strings_end_at_their_zero_and_fault_in_a_hole() {
    install_fault_handler();
    let page = page_before_a_hole();
    for len in (0..300).chain([4095]) {
        let start = page.wrapping_add(PAGE - len - 1);
        // SAFETY: the first page is mapped and ours.
        unsafe {
            std::slice::from_raw_parts_mut(start, len).fill(b'x');
            start.add(len).write(0);
        }
        let mut buffer = [1u8; PAGE];
        // SAFETY: the string is ours; made endless below, it faults and a handler is installed.
        unsafe {
            assert_eq!(read_c_string(start, &mut buffer), Ok(Some(len)));
            assert_eq!(read_c_string(start, &mut buffer[..len]), Ok(None));
            start.add(len).write(b'x');
            if len + 1 < PAGE {
                assert_eq!(read_c_string(start, &mut buffer), Err(Fault { copied: len + 1 }));
            }
        }
        assert!(buffer[..len].iter().all(|byte| *byte == b'x'));
    }
}

//! Tests of LibFS with SharedFS in one process, as one program: it is linked once, and its tests share the
//! processors to the end. Only `allocations` is apart, because it counts by an allocator of its own.

mod common;

mod access_lists;
mod allocate;
mod call_tags;
mod calls;
mod directory_quotas;
mod emulated;
mod extended;
mod mapped;
mod mapped_quotas;
mod misfortune;
mod openers;
mod overwrites;
mod posix;
mod quotas;
mod random;
mod regressions;
mod resume;
mod sessions;
mod soft_quotas;
mod staged;
mod turns;
mod unnamed;
mod waits;
mod walks;

//! The recorder of a build that records nothing.

use cuesta_format::Medium;
use rustix::fd::{AsFd, BorrowedFd};
use std::path::Path;

#[inline(always)]
pub(crate) fn on_store(_dst: *const u8, _len: usize) {}

#[inline(always)]
pub(crate) fn on_read(_src: *const u8, _len: usize) {}

#[inline(always)]
pub(crate) fn on_flush(_ptr: *const u8, _len: usize) {}

#[inline(always)]
pub(crate) fn on_fence() {}

#[inline(always)]
pub(crate) fn on_sync(_ptr: *const u8, _len: usize) {}

#[inline(always)]
pub(crate) fn on_map(_base: *const u8, _len: usize, _file: BorrowedFd<'_>, _offset: u64) {}

#[inline(always)]
pub(crate) fn on_unmap(_base: *const u8, _len: usize) {}

#[inline(always)]
pub(crate) fn on_create(_file: BorrowedFd<'_>) {}

#[inline(always)]
pub(crate) fn on_open(_file: BorrowedFd<'_>) {}

#[inline(always)]
pub(crate) fn on_set_len(_file: BorrowedFd<'_>, _len: u64) {}

#[inline(always)]
pub(crate) fn on_rename(_file: BorrowedFd<'_>) {}

#[inline(always)]
pub(crate) fn on_write_pages(_file: BorrowedFd<'_>, _offset: u64, _bytes: &[u8]) {}

#[inline(always)]
pub(crate) fn on_direct_write(_file: BorrowedFd<'_>, _offset: u64, _memory: *const u8, _len: usize) {}

#[inline(always)]
pub(crate) fn on_gathered(_file: BorrowedFd<'_>, _offset: u64, _len: usize, _medium: Medium) {}

#[inline(always)]
pub(crate) fn on_punch(_file: BorrowedFd<'_>, _offset: u64, _len: u64) {}

#[inline(always)]
pub(crate) fn on_remove_in(_folder: BorrowedFd<'_>, _name: &str) {}

#[inline(always)]
pub(crate) fn on_remove(_path: &Path) {}

/// Notes a read made with `pread` and its like.
#[inline(always)]
pub fn record_file_read(_file: impl AsFd, _offset: u64, _len: usize) {}

/// Notes a new length of a file.
#[inline(always)]
pub fn record_file_length(_file: BorrowedFd<'_>, _len: u64) {}

/// Notes a write made with `pwrite` and its like.
#[inline(always)]
pub fn record_file_write(_file: BorrowedFd<'_>, _offset: u64, _bytes: &[u8]) {}

/// Notes that everything written to the file so far is durable (`fsync`, `fdatasync`).
#[inline(always)]
pub fn record_file_sync(_file: BorrowedFd<'_>) {}

/// Notes a step of the test itself, such as "operation N was acknowledged".
#[inline(always)]
pub fn mark(_number: u64) {}

/// Has `follow` called on this thread behind everything it records.
#[inline(always)]
pub fn follow_each_event(_follow: Option<Box<dyn FnMut()>>) {}

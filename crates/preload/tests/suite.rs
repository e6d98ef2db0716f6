//! Tests of the preload door, as one program: it is linked once, and its tests share the processors to the end.

mod common;

mod allocations;
mod execution;
mod faults;
mod libraries;
mod loading;
mod locks;
mod openers;
mod passing;
mod processes;
mod programs;
mod sharing;
mod starts;
mod surroundings;
mod threads;

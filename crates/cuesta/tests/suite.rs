//! Tests of the installed command, as one program: it is linked once, and its tests share the processors to the end.

mod common;

mod bad_blocks;
mod bad_input;
mod commit_file;
mod containers;
mod damaged_content;
mod damaged_sessions;
mod directory_quotas;
mod doctor;
mod emulation;
mod failing_disk;
mod failing_tier;
mod formats;
mod full_disk;
mod identity;
mod layers;
mod life;
mod locks;
mod migration;
mod mount;
mod mount_endings;
mod once;
mod operator;
mod optimistic;
mod pins;
mod removed_tiers;
mod restart;
mod room_of_tiers;
mod sharing;
mod tidy;
mod tiers;
mod trust;
mod users;
mod versions;
mod written_to_disk;

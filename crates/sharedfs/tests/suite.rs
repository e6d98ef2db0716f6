//! Tests of SharedFS, as one program: it is linked once, and its tests share the processors to the end.
//! Apart from them: `full_medium`, which limits the size of the files that its process writes.

mod common;

mod ahead;
mod calls;
mod check;
mod copies;
mod damaged;
mod damaged_logs;
mod digest;
mod endings;
mod extended;
mod hostile;
mod meanwhile;
mod orphans;
mod planted;
mod recovery;
mod sessions;
mod threads;
mod wanted_together;

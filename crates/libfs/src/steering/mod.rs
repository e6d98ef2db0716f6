//! Steering: predictions of a file's next writes and reads, from those before them (Ziggurat §4).
//!
//! | file | idea |
//! |---|---|
//! | `destination` | policy: log, or blocks of which tier |
//! | `synchronicity` | predictor: will the program wait for these bytes soon |
//! | `write_size` | predictor: are writes here large, and will they stay so |
//! | `write_stream` | whether a program writes from front to back without waiting |
//! | `read_ahead` | how far ahead of a reader a lower tier is read |
//! | `predictions` | both, for one file |
//! | `hits` | how often each was right |
//!
//! The room knows no log and no tiers: it sees reads, writes and fsyncs, and answers with predictions.

pub(crate) mod destination;
pub(crate) mod hits;
pub(crate) mod predictions;
pub(crate) mod read_ahead;
pub(crate) mod synchronicity;
pub(crate) mod write_size;
pub(crate) mod write_stream;

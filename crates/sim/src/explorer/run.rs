//! One run of the explorer: walks through a recording, and tries the states that a crash may leave at each event.

use super::coverage::Coverage;
use super::failure::{Failure, Moment};
use super::states::choice::{self, Bounds};
use super::states::image::{Image, ImageHash, relative};
use super::states::memory::{Memory, Recalled};
use super::states::numbering;
use super::states::pending::{self, Pending};
use super::states::stage::Stage;
use super::subject::{Progress, Subject, advance};
use crate::operations::random::Random;
use cuesta_media::recorder::{self, Event, LinesRead, ReadTracker, Recorder, Recording};
use std::collections::HashSet;
use std::fs::File;
use std::path::Path;

/// Tries the states of `recording`, made of files below `root`, on `subject`; those in `memory` are not recovered again.
pub fn explore<S: Subject>(
    recording: Recording,
    root: &Path,
    subject: &mut S,
    memory: &mut Memory<S::RecoveredState>,
    bounds: &Bounds,
    seed: u64,
) -> Result<Coverage, Failure> {
    let root = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
    let run = Run {
        stage: Stage::like(&root).expect("temporary files can be made"),
        seed,
        bounds,
        random: Random::new(seed),
        progress: vec![Progress::default(); subject.lanes()],
        subject,
        memory,
        seen: HashSet::new(),
        coverage: Coverage::default(),
    };
    run.explore(numbering::by_appearance(recording), &root)
}

/// The files below `root` that hold something else than what was recorded: stores the recorder did not
/// see. Whoever explores a recording makes sure that there are none.
pub fn unaccounted(recording: &Recording, root: &Path) -> Vec<String> {
    let root = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
    let mut image = Image::new(&recording.base, &root);
    for recorded in &recording.events {
        match &recorded.event {
            Event::Appear { region, path, len, contents } => {
                image.appear(*region, relative(path, &root), *len, contents);
            }
            Event::SetLen { region, len } => image.set_len(*region, *len),
            Event::Rename { region, path } => image.rename(*region, relative(path, &root)),
            Event::Remove { path } => drop(image.remove(&relative(path, &root))),
            Event::Store { region, offset, bytes } => drop(image.store(*region, *offset, bytes)),
            Event::Written { region, offset, bytes, .. } => image.write(*region, *offset, bytes),
            Event::Flush { .. } | Event::Fence | Event::Mark(_) => {}
        }
    }
    let mut differences = Vec::new();
    for file in image.files() {
        let read = File::open(root.join(&file.path)).and_then(|file| recorder::read_contents(&file));
        let (len, found) = read.unwrap_or_default();
        if len != file.len {
            differences.push(format!("{}: {len} bytes, recorded {}", file.path.display(), file.len));
        } else if let Some(at) = first_difference(&found, &file.bytes) {
            differences.push(format!("{}: differs at byte {at}", file.path.display()));
        }
    }
    differences
}

/// Where the first bytes of two files differ, with zeros behind both.
fn first_difference(found: &[u8], recorded: &[u8]) -> Option<usize> {
    let both = found.len().min(recorded.len());
    if found[..both] != recorded[..both] {
        return found.iter().zip(recorded).position(|(found, recorded)| found != recorded);
    }
    let tail = if found.len() > both { &found[both..] } else { &recorded[both..] };
    tail.iter().position(|byte| *byte != 0).map(|at| both + at)
}

struct Run<'a, S: Subject> {
    stage: Stage,
    seed: u64,
    bounds: &'a Bounds,
    random: Random,
    subject: &'a mut S,
    memory: &'a mut Memory<S::RecoveredState>,
    seen: HashSet<ImageHash>,
    progress: Vec<Progress>,
    coverage: Coverage,
}

impl<S: Subject> Run<'_, S> {
    fn explore(mut self, recording: Recording, root: &Path) -> Result<Coverage, Failure> {
        let mut durable = Image::new(&recording.base, root);
        let mut stored = durable.clone();
        let mut pending = Pending::default();
        let outcome = (|| {
            self.check(&durable, Moment::AfterFence).map_err(|reason| (0, reason))?;
            for (number, recorded) in recording.events.iter().enumerate() {
                self.step(recorded.thread, &recorded.event, root, &mut pending, &mut durable, &mut stored)
                    .map_err(|reason| (number, reason))?;
            }
            self.between_fences(&pending, &mut durable).map_err(|reason| (recording.events.len(), reason))
        })();
        match outcome {
            Ok(()) => Ok(self.coverage),
            Err((event, (moment, reason))) => Err(Failure {
                seed: self.seed,
                event,
                events: recording.events.len(),
                moment,
                progress: self.progress,
                reason,
                files: std::env::var_os("CUESTA_SIM_KEEP").map(|_| self.stage.keep()),
            }),
        }
    }

    fn step(
        &mut self,
        thread: u64,
        event: &Event,
        root: &Path,
        pending: &mut Pending,
        durable: &mut Image,
        stored: &mut Image,
    ) -> Result<(), (Moment, String)> {
        match event {
            Event::Mark(mark) => advance(&mut self.progress, *mark),
            Event::Appear { region, path, len, contents } => {
                pending.forget(*region);
                for image in [&mut *durable, &mut *stored] {
                    image.appear(*region, relative(path, root), *len, contents);
                }
                self.between_steps(durable, stored)?;
            }
            Event::SetLen { region, len } => {
                pending.cut(*region, *len);
                durable.set_len(*region, *len);
                stored.set_len(*region, *len);
                self.between_steps(durable, stored)?;
            }
            Event::Rename { region, path } => {
                durable.rename(*region, relative(path, root));
                stored.rename(*region, relative(path, root));
                self.between_steps(durable, stored)?;
            }
            Event::Remove { path } => {
                let path = relative(path, root);
                if let Some(region) = durable.remove(&path) {
                    pending.forget(region);
                }
                stored.remove(&path);
                self.between_steps(durable, stored)?;
            }
            Event::Store { region, offset, bytes } => {
                let bytes = stored.within(*region, *offset, bytes);
                pending.store(*region, *offset, bytes);
                if self.random.one_in(self.bounds.deaths_one_in) {
                    let end = pending::start_of_word(*offset + self.random.below(bytes.len() as u64 + 1));
                    let torn = end.saturating_sub(*offset) as usize;
                    stored.store(*region, *offset, &bytes[..torn]);
                    self.check(stored, Moment::ProcessDeath)?;
                    stored.store(*region, *offset, bytes);
                    self.check(stored, Moment::ProcessDeath)?;
                } else {
                    stored.store(*region, *offset, bytes);
                }
            }
            Event::Written { region, offset, bytes, in_pages: true } if self.subject.writes_wait() => {
                stored.write(*region, *offset, bytes);
                durable.extend(*region, *offset + bytes.len() as u64);
                pending.store(*region, *offset, bytes);
                self.check(stored, Moment::ProcessDeath)?;
            }
            Event::Written { region, offset, bytes, .. } => {
                self.between_fences(pending, durable)?;
                pending.write_out(*region, *offset, bytes.len() as u64, durable);
                durable.write(*region, *offset, bytes);
                stored.write(*region, *offset, bytes);
                self.coverage.persist_points += 1;
                if self.subject.loses_power() {
                    self.check(durable, Moment::AfterWrite)?;
                }
                self.check(stored, Moment::ProcessDeath)?;
                self.coverage.persist_points_crashed += 1;
            }
            Event::Flush { region, offset, len } => pending.flush(thread, *region, *offset, *len),
            Event::Fence => {
                self.between_fences(pending, durable)?;
                debug_assert_eq!(pending.with_all(durable), stored.hash(), "nothing is lost if all survives");
                if pending.fence(thread, durable) && self.subject.loses_power() {
                    self.coverage.persist_points += 1;
                    self.check(durable, Moment::AfterFence)?;
                    self.coverage.persist_points_crashed += 1;
                }
            }
        }
        Ok(())
    }

    /// A crash of either kind behind a step of making or removing a file.
    fn between_steps(&mut self, durable: &Image, stored: &Image) -> Result<(), (Moment, String)> {
        self.coverage.file_steps += 1;
        if self.subject.loses_power() {
            self.check(durable, Moment::AfterFileStep)?;
        }
        self.check(stored, Moment::ProcessDeath)
    }

    /// Power loss with any subset of what is pending.
    fn between_fences(&mut self, pending: &Pending, durable: &mut Image) -> Result<(), (Moment, String)> {
        if !self.subject.loses_power() {
            return Ok(());
        }
        let all = pending.all();
        let disk_of = |region| durable.path(region).map_or(0, |path| self.subject.disk_of(path));
        for survivors in choice::choose(&all, disk_of, self.bounds, &mut self.random) {
            let moment = Moment::BetweenFences { lines: survivors.len(), pending: all.len() };
            let undo = pending.apply(&survivors, durable);
            let verdict = self.check(durable, moment);
            durable.revert(undo);
            verdict?;
        }
        Ok(())
    }

    /// Recovers what is on the stage, and tries the crashes this recovery may suffer.
    fn recover_crashing(
        &mut self,
        first: &Moment,
    ) -> Result<Result<S::RecoveredState, String>, (Moment, String)> {
        let recorder = Recorder::install(&[self.stage.path()]).expect("the stage can be read");
        let found = self.subject.recover(self.stage.path());
        let recording = recorder.take();
        let bounds = Bounds { recoveries_one_in: 0, ..Bounds::quick() };
        let again = Run {
            stage: Stage::like(self.stage.path()).expect("temporary files can be made"),
            seed: self.seed,
            bounds: &bounds,
            random: self.random.clone(),
            subject: &mut *self.subject,
            memory: &mut *self.memory,
            seen: HashSet::new(),
            progress: self.progress.clone(),
            coverage: Coverage::default(),
        };
        let root = self.stage.path().canonicalize().expect("the stage exists");
        match again.explore(numbering::by_appearance(recording), &root) {
            Ok(coverage) => self.coverage.add(coverage),
            Err(failure) => {
                let moments = Box::new([first.clone(), failure.moment]);
                return Err((Moment::DuringRecovery(moments), failure.reason));
            }
        }
        Ok(self.going_on(found))
    }

    /// The finding of a recovery, if the store goes on behind it.
    fn going_on(&mut self, found: Result<S::RecoveredState, String>) -> Result<S::RecoveredState, String> {
        found.and_then(|found| self.subject.go_on(self.stage.path(), &found).map(|()| found))
    }

    /// Recovers what is on the stage, and says which lines that depends on.
    fn recover_reading(&mut self) -> (Result<S::RecoveredState, String>, Option<Vec<LinesRead>>) {
        if !self.subject.reads_are_seen() {
            let found = self.subject.recover(self.stage.path());
            return (self.going_on(found), None);
        }
        let tracker = ReadTracker::start(self.stage.path());
        let found = self.subject.recover(self.stage.path());
        let found = self.going_on(found);
        (found, Some(tracker.take()))
    }

    /// Recovers one state, unless an equal one was, and judges it. Whether its recovery is crashed does not depend on
    /// what other runs came to.
    fn check(&mut self, image: &Image, moment: Moment) -> Result<(), (Moment, String)> {
        self.coverage.states += 1;
        let every = self.bounds.recoveries_one_in;
        let is_new = self.seen.insert(image.hash());
        self.coverage.states_distinct += u64::from(is_new);
        let crashing = is_new && every > 0 && self.random.one_in(every);
        let circumstances = self.subject.circumstances();
        let found = match self.memory.recall(image, circumstances) {
            Recalled::Told(found) if !crashing => found,
            known => {
                self.coverage.states_recovered += 1;
                self.stage.show(image).expect("a state can be written to temporary files");
                let (found, reads) = match crashing {
                    true => (self.recover_crashing(&moment)?, None),
                    false => self.recover_reading(),
                };
                let found = self.memory.keep(image, circumstances, found, reads);
                match known {
                    Recalled::ToCheck(told) if told != found => {
                        let reason = "it recovers to something else than a state that is the same where recovery looks";
                        return Err((moment, reason.to_owned()));
                    }
                    _ => found,
                }
            }
        };
        let verdict = match &*found {
            Ok(found) => self.subject.judge(found, &self.progress),
            Err(reason) => Err(format!("recovery failed: {reason}")),
        };
        verdict.map_err(|reason| {
            self.stage.show(image).expect("a state can be written to temporary files");
            (moment, reason)
        })
    }
}

//! exec: handing over what the next program inherits, and executing programs that lie in the store.
//!
//! The next program finds what it inherits by `CUESTA_TABLE`; the environment it gets has the preload and
//! Cuesta's own variables whatever its caller passed.
//!
//! | program | how it is executed |
//! |---|---|
//! | of the kernel's, interpreters and all | the call as it came, with that environment |
//! | in the store | from a copy in memory; its own path and name (as in `/proc/self/exe`) go along |
//! | a script, it or an interpreter of it in the store | its interpreter, with the arguments the kernel would give |
//! | one the library cannot be loaded into, where the store is mounted | by the mount, with all it inherits (`by_mount`) |
//! | the same elsewhere | as always if it has nothing of the store, else refused with a line |

use crate::call::{Answer, Call, Failure, errno};
use crate::calls::kinds::by_mount;
use crate::calls::paths::descriptor_paths;
use crate::calls::programs::exec_image::ExecImage;
use crate::calls::programs::program_copy::ProgramCopy;
use crate::calls::programs::program_file::{Location, ProgramFile};
use crate::calls::programs::variables::{self, Variable};
use crate::calls::programs::{loaders, needed};
use crate::descriptors::references;
use crate::door::counting;
use crate::memory::user_memory::{self, UserPath};
use crate::process;
use crate::process::inheritance::table::{Identity, Table};
use crate::process::inheritance::written::Library;
use crate::thread::{self, gate};
use cuesta_format::account::Barrier;
use std::ffi::{CStr, CString};

/// Variables every program under Cuesta has.
const KEPT: [&CStr; 7] = [
    c"LD_PRELOAD",
    c"CUESTA_SOCKET",
    c"CUESTA_AT",
    c"CUESTA_MOUNTED",
    c"CUESTA_DEVICE",
    c"CUESTA_PATCH",
    c"CUESTA_DURABILITY",
];
/// Variables meant for the library in the next program alone.
const OURS_ALONE: [&str; 2] = ["CUESTA_TABLE", counting::VARIABLE];

/// Scripts whose interpreters are scripts: the kernel follows this many.
const INTERPRETERS_MAX: usize = 5;

/// How much of an argument is looked at.
const ARGUMENT_BYTES: usize = 4096;

impl ExecImage {
    /// The environment of `variables`, completed, with `ours`, and with where `libraries` are found.
    fn set_variables<'a>(
        &mut self,
        variables: &[Variable],
        ours: impl Iterator<Item = &'a CStr>,
        libraries: &[Library],
    ) -> Result<(), Failure> {
        let mut added = Vec::with_capacity(KEPT.len() + OURS_ALONE.len() + 1);
        self.variables.reserve(variables.len() + KEPT.len() + OURS_ALONE.len() + 2);
        let mut has_preload = false;
        for variable in variables {
            if !variable.may_concern_us() {
                self.variables.push(variable.address);
                continue;
            }
            if OURS_ALONE.iter().any(|name| variable.is_named(name.as_bytes())) {
                continue;
            }
            let kept = KEPT.iter().position(|name| variable.is_named(name.to_bytes()));
            match kept {
                // Another library may be preloaded as well, but not instead.
                Some(0) => {
                    added.push(with_preload(variable.address)?);
                    has_preload = true;
                }
                Some(_) => {}
                None => self.variables.push(variable.address),
            }
        }
        let missing = KEPT.iter().skip(usize::from(has_preload));
        added.extend(missing.filter_map(|name| process::variable(name)));
        if !libraries.is_empty() {
            let is_path = |address: &usize| Variable::at(*address).is_named(needed::VARIABLE);
            let before = self.variables.iter().position(is_path).map(|place| self.variables.remove(place));
            added.push(needed::variable(libraries, before)?);
        }
        if self.has_sanitizer {
            let is_options = |address: &usize| Variable::at(*address).is_named(needed::SANITIZER_VARIABLE);
            let before = self.variables.iter().position(is_options).map(|place| self.variables.remove(place));
            added.push(needed::sanitizer_variable(before)?);
        }
        added.extend(ours.map(CStr::to_owned));
        self.variables.extend(added.iter().map(|string| string.as_ptr() as usize));
        self.variables.push(0);
        self.strings.extend(added);
        Ok(())
    }

    /// The arguments: `front` in the place of the first of `arguments`.
    fn set_arguments(&mut self, front: Vec<Vec<u8>>, arguments: &[usize]) {
        // Arguments and paths that came as C strings have no zero in them.
        let front: Vec<CString> =
            front.into_iter().filter_map(|argument| CString::new(argument).ok()).collect();
        self.arguments.extend(front.iter().map(|argument| argument.as_ptr() as usize));
        self.arguments.extend(arguments.iter().skip(1));
        self.arguments.push(0);
        self.strings.extend(front);
    }

    /// The call that executes all this; `original` knows what is not replaced.
    fn call(&self, original: &Call, variables: usize) -> Call {
        let mut call = *original;
        call.arguments[variables] = self.variables.as_ptr() as usize;
        if let Some(copy) = &self.copy {
            let arguments = if self.arguments.is_empty() {
                original.arguments[variables - 1]
            } else {
                self.arguments.as_ptr() as usize
            };
            call.number = libc::SYS_execveat as usize;
            call.arguments = [
                copy.descriptor() as usize,
                c"".as_ptr() as usize,
                arguments,
                self.variables.as_ptr() as usize,
                libc::AT_EMPTY_PATH as usize,
                0,
            ];
        } else if !self.path.is_empty() {
            call.number = libc::SYS_execve as usize;
            call.arguments[0] = self.path.as_ptr() as usize;
            call.arguments[1] = if self.arguments.is_empty() {
                original.arguments[variables - 1]
            } else {
                self.arguments.as_ptr() as usize
            };
            call.arguments[2] = self.variables.as_ptr() as usize;
        }
        call
    }
}

fn with_preload(address: usize) -> Result<CString, Failure> {
    let theirs = UserPath::read(address)?;
    let Some(ours) = process::preload_path() else {
        return CString::new(theirs.as_bytes()).map_err(|_| Failure::Errno(libc::EINVAL));
    };
    let mut value = theirs.as_bytes().to_vec();
    let has_ours = value.windows(ours.len()).any(|window| window == ours);
    if !has_ours {
        value.push(b':');
        value.extend_from_slice(ours);
    }
    CString::new(value).map_err(|_| Failure::Errno(libc::EINVAL))
}

/// A new process: a plain fork passes the gate and is made here, on a stack the child has a copy of; any other
/// is made by the site's stub.
pub fn make_process(call: &Call) -> Answer {
    process::before_child();
    if thread::is_vforked() {
        // Its child's credentials would lie where its own do.
        // SAFETY: the reference ends within the statement.
        unsafe { thread::delta() }.get_or_insert_default().has_children = true;
        return Err(Failure::NotOurs);
    }
    if let Some(client) = process::attached() {
        client.tell_accesses();
    }
    process::settle_vfork();
    let (flags, stack) = flags_and_stack(call)?;
    let shares = |flag: i32| flags & flag as u64 != 0;
    let shares_descriptors = shares(libc::CLONE_FILES);
    if shares(libc::CLONE_VM) {
        references::keep_for_child();
        if !shares(libc::CLONE_VFORK) {
            thread::expect_guest(shares_descriptors);
        } else if shares_descriptors || thread::has_guests() {
            // SAFETY: the reference ends within the block.
            let delta = unsafe { thread::delta() }.get_or_insert_default();
            (delta.is_of_suspending_child, delta.is_parents_too) = (true, shares_descriptors);
        }
        return Err(Failure::NotOurs);
    }
    process::note_sharing(shares_descriptors);
    if stack != 0 {
        references::keep_for_child();
        return Err(Failure::NotOurs);
    }
    let answer = gate::pass(|| {
        references::keep(|_, _| true);
        call.kernel(call.arguments)
    });
    if answer == 0 {
        crate::arch::after_fork();
        process::forked();
    }
    Ok(answer)
}

/// The flags that say what the child shares, and the stack it gets; zero: a copy of this thread's.
fn flags_and_stack(call: &Call) -> Result<(u64, u64), Failure> {
    Ok(match call.number as i64 {
        libc::SYS_clone => (call.word(0) as u64, call.word(1) as u64),
        // struct clone_args: flags, pidfd, child_tid, parent_tid, exit_signal, stack.
        libc::SYS_clone3 => {
            let arguments: [u64; 6] = user_memory::read(call.word(0)).map_err(|_| Failure::NotOurs)?;
            (arguments[0], arguments[5])
        }
        libc::SYS_vfork => ((libc::CLONE_VM | libc::CLONE_VFORK) as u64, 0),
        _ => (0, 0),
    })
}

/// `execveat` that only asks whether it could.
const AT_EXECVE_CHECK: i32 = 0x1_0000;

pub fn execute(
    call: &Call,
    directory: Option<usize>,
    path: usize,
    arguments: usize,
    variables: usize,
    flags: i32,
) -> Answer {
    let errno = errno::get();
    process::configuration()?;
    let name = UserPath::read(call.word(path))?;
    if flags & !(libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH | AT_EXECVE_CHECK) != 0 {
        return match name.as_bytes() {
            b"" if flags & libc::AT_EMPTY_PATH == 0 => Err(Failure::Errno(libc::ENOENT)),
            _ => Err(Failure::Errno(libc::EINVAL)),
        };
    }
    let directory_argument = directory;
    let directory = directory.map_or(libc::AT_FDCWD, |index| call.int(index));
    let mut chain = Chain::new(directory, name.as_bytes(), flags)?;
    chain.follow()?;
    let given = variables::list(call.word(arguments))?;
    let barrier = chain.program.excludes_library();
    let is_by_mount = barrier.is_some() && by_mount::is_mounted();
    if let Some(barrier) = barrier.filter(|_| !is_by_mount) {
        refuse_if_of_store(call, &chain.program, barrier, name.as_bytes(), &given)?;
    }
    let has_sanitizer = barrier.is_none() && needed::needs_sanitizer(&chain.program);
    let mut image = ExecImage { has_sanitizer, ..ExecImage::default() };
    let identity = chain.prepare(&mut image, name.as_bytes(), &given, is_by_mount)?;
    let is_in_store = matches!(chain.program.location, Location::Store(..));
    let (variable, executed) = counting::note_exec(call, chain.program.path(), is_in_store, barrier).unzip();
    let given_variables = variables::of(call.word(variables))?;
    let libraries = match barrier {
        None => needed::libraries(&chain.program, &given_variables)?,
        Some(_) => Vec::new(),
    };
    if let Some(barrier) = barrier.filter(|_| is_by_mount) {
        match by_mount::enter() {
            Ok(entered) => image.entered = Some(entered),
            Err(obstacle) => return refuse(call, &chain.program, barrier, name.as_bytes(), obstacle.why()),
        }
    }
    drop(chain);
    let table = match is_by_mount {
        true => None,
        false => Table::of_this_process(identity, libraries).and_then(Table::write),
    };
    let ours = [table.as_ref().map(|table| table.variable.as_c_str()), variable.as_deref()];
    let libraries = table.as_ref().map(|table| &table.libraries[..]).unwrap_or_default();
    image.set_variables(&given_variables, ours.into_iter().flatten(), libraries)?;
    drop(variable);
    image.table = table;
    drop(name);
    drop(given);
    let out = image.call(call, variables);
    let is_redirected = image.copy.as_ref().is_some_and(ProgramCopy::is_redirected);
    let mut kept = Some(image);
    let leaves_memory_behind = thread::leaves_memory_behind();
    if leaves_memory_behind {
        // Leaves with the child: no thread comes back here to free it.
        // SAFETY: the reference ends within the statement.
        unsafe { thread::delta() }.get_or_insert_default().exec = kept.take();
        // A vfork child shares this thread's state with its parent, which is not inside, and errno.
        errno::set(errno);
        thread::leave();
    }
    let answer = match process::attached() {
        // A vfork child's parent goes on.
        Some(client) if !leaves_memory_behind => client.while_executing(|| out.kernel(out.arguments)),
        _ => out.kernel(out.arguments),
    };
    thread::enter();
    if leaves_memory_behind {
        // SAFETY: the reference ends within the statement.
        kept = unsafe { thread::delta() }.as_mut().and_then(|delta| delta.exec.take());
    }
    drop(kept);
    if let Some(executed) = executed {
        executed.take_back();
    }
    if answer < 0 && is_redirected {
        // Its loader may be out of reach here.
        loaders::give_up();
        return execute(call, directory_argument, path, arguments, variables, flags);
    }
    Ok(answer)
}

/// A program and, if it is a script, what interprets it.
struct Chain {
    /// The program at the chain's end, which will run.
    program: ProgramFile,
    /// What stands for the first argument: interpreters with their arguments, and the script.
    front: Vec<Vec<u8>>,
    /// Whether the kernel cannot do it, because something of it lies in the store.
    is_ours: bool,
}

impl Chain {
    fn new(directory: i32, path: &[u8], flags: i32) -> Result<Self, Failure> {
        let program = ProgramFile::find(directory, path, flags)?;
        let is_moved = match &program.location {
            Location::Store(..) => true,
            Location::Kernel(found) => found != path,
        };
        let name = match path.first() {
            Some(b'/') => path.to_vec(),
            Some(_) if directory == libc::AT_FDCWD => path.to_vec(),
            // As the kernel tells the interpreter.
            Some(_) => [format!("/dev/fd/{directory}/").as_bytes(), path].concat(),
            None => format!("/dev/fd/{directory}").into_bytes(),
        };
        Ok(Self { program, front: vec![name], is_ours: is_moved })
    }

    /// Goes on to the interpreter of the interpreter.
    fn follow(&mut self) -> Result<(), Failure> {
        for _ in 0..=INTERPRETERS_MAX {
            let Some(line) = self.program.script()? else { return Ok(()) };
            let next = ProgramFile::find(libc::AT_FDCWD, &line.interpreter, 0)?;
            // The file before is the argument; what stood before it stands behind.
            let file = self.front.remove(0);
            let mut front = vec![line.interpreter];
            front.extend(line.argument);
            front.push(file);
            front.append(&mut self.front);
            self.front = front;
            self.is_ours |= matches!(next.location, Location::Store(..));
            self.program = next;
        }
        Err(Failure::Errno(libc::ELOOP))
    }

    /// Fills in program and arguments, where the call as it came would not do. Answers what the program is to take
    /// itself for.
    fn prepare(
        &self,
        image: &mut ExecImage,
        name: &[u8],
        given: &[usize],
        is_by_mount: bool,
    ) -> Result<Option<Identity>, Failure> {
        let base = |path: &[u8]| path.rsplit(|byte| *byte == b'/').next().unwrap_or_default().to_vec();
        if !self.is_ours {
            // The copy this process runs, of a program that is gone.
            let own = process::program().filter(|_| descriptor_paths::names_program(name));
            let identity = |own: &[u8]| Identity {
                command: base(name),
                program: Some(own.to_vec()),
                is_without_sites: false,
            };
            return Ok(own.map(identity));
        }
        if self.front.len() > 1 {
            image.set_arguments(self.front.clone(), given);
        }
        let mut identity = Identity { command: base(name), program: None, is_without_sites: false };
        match &self.program.location {
            Location::Store(file, path) if is_by_mount => {
                let path = by_mount::program(path, file.inode());
                image.path = path.ok_or(Failure::Errno(libc::ENOENT))?;
            }
            Location::Store(file, path) => {
                let copy = ProgramCopy::of(file)?;
                identity.is_without_sites = copy.is_without_sites();
                image.copy = Some(copy);
                identity.program = Some(path.clone());
                if name.is_empty() {
                    identity.command = base(path);
                }
            }
            Location::Kernel(path) => {
                image.path = CString::new(path.as_slice()).map_err(|_| Failure::Errno(libc::ENOENT))?;
                if name.is_empty() {
                    return Ok(None);
                }
            }
        }
        Ok(Some(identity))
    }
}

/// A program the library cannot be loaded into would take what it has of the store for something else.
fn refuse_if_of_store(
    call: &Call,
    program: &ProgramFile,
    barrier: Barrier,
    name: &[u8],
    arguments: &[usize],
) -> Result<(), Failure> {
    match concern(program, arguments)? {
        Some(why) => refuse(call, program, barrier, name, &why).map(|_| ()),
        None => Ok(()),
    }
}

fn refuse(call: &Call, program: &ProgramFile, barrier: Barrier, name: &[u8], why: &str) -> Answer {
    counting::note_refused(program.path(), barrier);
    let (name, what) = (String::from_utf8_lossy(name), barrier.description());
    crate::process::report(format_args!("{name} is {what}, so the store cannot be served to it: {why}"));
    call.unserved(libc::EOPNOTSUPP)
}

/// How the program would use the store, and a hint for the user.
fn concern(program: &ProgramFile, arguments: &[usize]) -> Result<Option<String>, Failure> {
    let prefix = &process::configuration()?.prefix;
    if let Some(fd) = crate::process::inheritance::table::inherited_descriptor() {
        return Ok(Some(format!(
            "it inherits descriptor {fd}, which is a file of the store (give it a pipe instead)"
        )));
    }
    if crate::descriptors::working_directory::pin().is_some() {
        return Ok(Some("its working directory lies in the store (start it from another)".into()));
    }
    for argument in arguments.iter().skip(1) {
        let argument = text(*argument);
        if names_prefix(&argument, prefix) {
            let argument = String::from_utf8_lossy(&argument);
            return Ok(Some(format!(
                "its argument {argument} lies there (give it a copy outside the store)"
            )));
        }
    }
    if matches!(program.location, Location::Store(..)) && program.changes_user() {
        return Ok(Some("it lies in the store (install it outside)".into()));
    }
    Ok(None)
}

/// The string at `address`, as far as it is looked at.
fn text(address: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut step = [0u8; 64];
    while bytes.len() < ARGUMENT_BYTES {
        let at = address.wrapping_add(bytes.len());
        let part = &mut step[..(64 - at % 64)];
        if user_memory::read_bytes(at, part).is_err() {
            break;
        }
        let end = part.iter().position(|byte| *byte == 0);
        bytes.extend_from_slice(&part[..end.unwrap_or(part.len())]);
        if end.is_some() {
            break;
        }
    }
    bytes
}

/// Whether an argument (a path, or an option with one) leads below `prefix`.
fn names_prefix(argument: &[u8], prefix: &[u8]) -> bool {
    argument.windows(prefix.len()).enumerate().any(|(at, window)| {
        let is_whole = matches!(argument.get(at + prefix.len()), None | Some(b'/' | b':' | b','));
        let starts_a_path = match argument[..at].last() {
            Some(before) if before.is_ascii_alphanumeric() => !argument[..at].contains(&b'/'),
            Some(before) => !matches!(before, b'/' | b'.' | b'_' | b'-'),
            None => true,
        };
        window == prefix && is_whole && starts_a_path
    })
}

#[cfg(test)]
mod tests {
    use super::names_prefix;

    #[test]
    fn an_argument_names_the_store_where_a_path_begins() {
        let named = |argument: &str| names_prefix(argument.as_bytes(), b"/cuesta");
        for argument in [
            "/cuesta",
            "/cuesta/a",
            "--file=/cuesta/a",
            "-I/cuesta/a",
            "/bin:/cuesta",
            "of=/cuesta/x",
            "h:/cuesta/a",
        ] {
            assert!(named(argument), "{argument}");
        }
        for argument in ["/cuestas", "/data/cuesta/a", "cuesta", "../cuesta", "", "/x/a.b/cuesta"] {
            assert!(!named(argument), "{argument}");
        }
    }
}

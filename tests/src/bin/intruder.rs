//! A tool that tries to access things that it was not granted.
//!
//! Each argument is one attempt, with its words separated by spaces. The tool prints one line per
//! attempt: `reached` or the error. The tests run it without a sandbox first, because an attempt
//! that also fails there would prove nothing.

#![cfg(target_os = "linux")]

#[path = "intruder/sockets.rs"]
mod sockets;

use std::env;
use std::ffi::CString;
use std::fs;
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, sock_filter,
};

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    if args.first().is_some_and(|first| first == "without-namespaces") {
        let error = run_without_namespaces(&args[1..]);
        print_line(&format!("cannot run {args:?}: {error}"));
        return ExitCode::FAILURE;
    }
    if args.first().is_some_and(|first| first == "under-a-listener") {
        let error = run_under_a_listener(&args[1..]);
        print_line(&format!("cannot run {args:?}: {error}"));
        return ExitCode::FAILURE;
    }
    if args.first().is_some_and(|first| first == "in-flight") {
        let error = run_with_descriptors_in_flight(&args[1..]);
        print_line(&format!("cannot run {args:?}: {error}"));
        return ExitCode::FAILURE;
    }
    for attempt in args {
        let words: Vec<&str> = attempt.split(' ').collect();
        print_line(&match converse(&words) {
            Some(Ok(answer)) => answer,
            Some(Err(error)) => error.to_string(),
            None => match attack(&words) {
                Ok(()) => "reached".to_owned(),
                Err(error) => error.to_string(),
            },
        });
    }
    ExitCode::SUCCESS
}

fn print_line(line: &str) {
    // If stdout is closed, that does not matter.
    let _ = writeln!(io::stdout(), "{line}");
}

/// Talks to a peer, and returns its answer. Returns `None` for other attempts.
fn converse(words: &[&str]) -> Option<io::Result<String>> {
    Some(match *words {
        ["talk", address, bytes] => talk(address, bytes),
        ["flood", address, bytes, count] => flood(address, bytes, count),
        ["crowd", address, bytes, count] => crowd(address, bytes, count),
        _ => return None,
    })
}

/// Parses bytes that are written as hexadecimal digits, in pieces: `6162,63x1000`.
fn bytes_of(text: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for piece in text.split(',') {
        let (digits, times) = piece.split_once('x').unwrap_or((piece, "1"));
        let pairs = digits.as_bytes().chunks(2).map(String::from_utf8_lossy);
        let once = pairs.map(|pair| u8::from_str_radix(&pair, 16)).collect::<Result<Vec<u8>, _>>();
        bytes.extend(once.map_err(io::Error::other)?.repeat(number(times)?));
    }
    Ok(bytes)
}

/// Sends bytes, and returns everything that the other side answers until it closes.
fn talk(address: &str, bytes: &str) -> io::Result<String> {
    let bytes = bytes_of(bytes)?;
    let mut stream = TcpStream::connect(address)?;
    let mut heard = Vec::new();
    // A peer that refuses may close before everything is sent.
    if stream.write_all(&bytes).and_then(|()| stream.shutdown(Shutdown::Write)).is_err() {
        heard.extend_from_slice(b"(closed early) ");
    }
    if let Err(error) = stream.read_to_end(&mut heard) {
        heard.extend_from_slice(format!(" ({error})").as_bytes());
    }
    Ok(heard.escape_ascii().to_string())
}

/// Talks to the peer `count` times, from many threads at once. Returns the number of greetings that
/// came back.
fn flood(address: &str, bytes: &str, count: &str) -> io::Result<String> {
    const THREADS: usize = 100;
    let each = number(count)? / THREADS;
    let greeted = std::thread::scope(|scope| {
        let talks = || (0..each).filter(|_| talk(address, bytes).is_ok_and(is_greeting)).count();
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(talks)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(0)).sum::<usize>()
    });
    Ok(greeted.to_string())
}

fn is_greeting(answer: String) -> bool {
    answer.ends_with("hello")
}

/// Opens `count` silent connections, and then talks over another one.
fn crowd(address: &str, bytes: &str, count: &str) -> io::Result<String> {
    let count = number(count)?;
    let held = (0..count).map(|_| TcpStream::connect(address)).collect::<io::Result<Vec<_>>>()?;
    let answer = talk(address, bytes);
    drop(held);
    answer
}

/// Sends bytes, and keeps the connection open until the other side closes.
fn keep(address: &str, bytes: &str) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(&bytes_of(bytes)?)?;
    stream.read_to_end(&mut Vec::new()).map(drop)
}

/// Connects to a server in the same process.
fn reach_itself() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut own = TcpStream::connect(listener.local_addr()?)?;
    own.write_all(b"x")?;
    listener.accept()?.0.read_exact(&mut [0])
}

fn attack(words: &[&str]) -> io::Result<()> {
    if let Some(result) = sockets::attack(words) {
        return result;
    }
    match *words {
        ["read", path] => fs::read(path).map(drop),
        ["list", path] => fs::read_dir(path).map(drop),
        ["readlink", path] => fs::read_link(path).map(drop),
        ["up", path] => climb(path),
        ["write", path] => fs::write(path, "intruded"),
        ["open", path] => fs::OpenOptions::new().write(true).open(path).map(drop),
        ["truncate", path] => call(libc::SYS_truncate, &[text(path)?.as_ptr() as usize, 0]),
        ["chmod", path] => fs::set_permissions(path, fs::Permissions::from_mode(0o777)),
        ["setuid", path] => fs::set_permissions(path, fs::Permissions::from_mode(0o4755)),
        ["born-setuid", path] => {
            fs::OpenOptions::new().write(true).create_new(true).mode(0o4755).open(path).map(drop)
        }
        ["request", path, request] => make_request(path, number(request)?),
        ["lease", path] => {
            let file = fs::File::open(path)?;
            let command = libc::F_SETLEASE as usize;
            call(libc::SYS_fcntl, &[file.as_raw_fd() as usize, command, libc::F_WRLCK as usize])
        }
        ["hint", path] => {
            const SET_HINT: usize = 1036;
            // RWH_WRITE_LIFE_LONG, linux/fcntl.h.
            let (file, hint) = (fs::File::open(path)?, 4_u64);
            let file = file.as_raw_fd() as usize;
            call(libc::SYS_fcntl, &[file, SET_HINT, (&raw const hint) as usize])
        }
        ["fill-flight"] => fill_flight(),
        ["unlink", path] => fs::remove_file(path),
        ["mkdir", path] => fs::create_dir(path),
        ["rename", from, to] => fs::rename(from, to),
        ["link", from, to] => fs::hard_link(from, to),
        ["symlink-read", target, link] => {
            std::os::unix::fs::symlink(target, link)?;
            fs::read(link).map(drop)
        }
        ["tcp", address] => TcpStream::connect(address).map(drop),
        ["udp", address] => UdpSocket::bind("0.0.0.0:0")?.send_to(b"intruded", address).map(drop),
        ["keep", address, bytes] => keep(address, bytes),
        ["own-server"] => reach_itself(),
        ["unix", path] => UnixStream::connect(path).map(drop),
        ["abstract", name] => {
            UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?).map(drop)
        }
        ["pair", path] => UnixDatagram::pair()?.0.send_to(b"intruded", path).map(drop),
        ["abstract-pair", name] => {
            let address = SocketAddr::from_abstract_name(name)?;
            UnixDatagram::pair()?.0.send_to_addr(b"intruded", &address).map(drop)
        }
        ["socket", family] => {
            call(libc::SYS_socket, &[number(family)?, libc::SOCK_RAW as usize, 0])
        }
        ["kill", pid] => call(libc::SYS_kill, &[number(pid)?, 0]),
        ["signal-init"] => {
            for signal in [libc::SIGSTOP, libc::SIGKILL, libc::SIGTERM, libc::SIGHUP] {
                call(libc::SYS_kill, &[1, signal as usize])?;
            }
            Ok(())
        }
        ["ptrace", pid] => {
            const SEIZE: usize = 0x4206;
            call(libc::SYS_ptrace, &[SEIZE, number(pid)?, 0, 0])
        }
        ["memory", pid] => read_memory(number(pid)?),
        ["run", path] => run(path),
        ["sleep"] => {
            io::stdin().read_to_end(&mut Vec::new())?;
            std::thread::sleep(std::time::Duration::from_secs(1000));
            Ok(())
        }
        [kernel, ref rest @ ..] => kernel_call(kernel, rest),
        [] => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Makes a request of `ioctl` on a file. The devices of random numbers answer an unknown one with
/// EINVAL, and Landlock refuses most requests on a device with EACCES. Both errors show that the
/// filter let the request through.
fn make_request(path: &str, request: usize) -> io::Result<()> {
    let mut space = [0_u64; 512];
    let file = fs::File::open(path)?;
    let space = space.as_mut_ptr() as usize;
    match call(libc::SYS_ioctl, &[file.as_raw_fd() as usize, request, space]) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EACCES)) => Ok(()),
        other => other,
    }
}

/// Makes a system call that no tool needs.
fn kernel_call(name: &str, words: &[&str]) -> io::Result<()> {
    let zeroes = [0_u64; 32];
    let zeroes = zeroes.as_ptr() as usize;
    let path = text(words.first().copied().unwrap_or("/"))?;
    let path = path.as_ptr() as usize;
    match name {
        "unshare-user" => call(libc::SYS_unshare, &[libc::CLONE_NEWUSER as usize]),
        "clone-user" => {
            let flags = libc::CLONE_NEWUSER | libc::SIGCHLD;
            fork(libc::SYS_clone, &[flags as usize, 0, 0, 0, 0])
        }
        "clone3-user" => {
            let mut arguments = [0_u64; 11];
            arguments[0] = libc::CLONE_NEWUSER as u64;
            arguments[4] = libc::SIGCHLD as u64;
            fork(libc::SYS_clone3, &[arguments.as_ptr() as usize, size_of_val(&arguments)])
        }
        "setns" => {
            let own = fs::File::open("/proc/self/ns/uts")?;
            call(libc::SYS_setns, &[own.as_raw_fd() as usize, 0])
        }
        "mount" => {
            let kind = text("tmpfs")?;
            call(libc::SYS_mount, &[kind.as_ptr() as usize, path, kind.as_ptr() as usize, 0, 0])
        }
        "remount" => {
            let flags = libc::MS_REMOUNT | libc::MS_BIND;
            call(libc::SYS_mount, &[0, path, 0, flags as usize, 0])
        }
        "open-tree" => call(libc::SYS_open_tree, &[libc::AT_FDCWD as usize, path, 1]),
        "chroot" => call(libc::SYS_chroot, &[path]),
        "by-handle" => open_by_handle(path),
        "memory-of-nobody" => call(libc::SYS_memfd_create, &[c"m".as_ptr() as usize, 0]),
        "io-uring" => call(libc::SYS_io_uring_setup, &[1, zeroes]),
        "add-key" => {
            let (kind, name) = (text("user")?, text("ikigai-intruder")?);
            const SESSION: usize = usize::MAX - 2;
            call(
                libc::SYS_add_key,
                &[kind.as_ptr() as usize, name.as_ptr() as usize, zeroes, 8, SESSION],
            )
        }
        "keyctl" => call(libc::SYS_keyctl, &[0, usize::MAX - 2, 1]),
        "bpf" => {
            // The call makes an array of one number.
            let map: [u32; 16] = [2, 4, 4, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            call(libc::SYS_bpf, &[0, map.as_ptr() as usize, size_of_val(&map)])
        }
        "perf" => {
            let mut event = [0_u64; 16];
            // The words are: a software event, this size, the CPU's clock.
            event[0] = 1 | (128 << 32);
            call(
                libc::SYS_perf_event_open,
                &[event.as_ptr() as usize, 0, usize::MAX, usize::MAX, 0],
            )
        }
        // The range is not mapped: a kernel that examines it only reports that.
        "long-survey" => match call(libc::SYS_mincore, &[1 << 40, 1 << 43, 0]) {
            Err(error) if error.raw_os_error() == Some(libc::ENOMEM) => Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::EFAULT) => Ok(()),
            other => other,
        },
        "own-descriptors" => call(libc::SYS_close_range, &[1000, 1000, CLOSE_RANGE_UNSHARE]),
        "listen-to-filter" => listen_to_filter().map(drop),
        "see-locks" => see_locks(),
        "userfaultfd" => call(libc::SYS_userfaultfd, &[0]),
        "syslog" => call(libc::SYS_syslog, &[10, 0, 0]),
        "type-into-terminal" => {
            // Without a terminal, a permitted call fails with a different error than a refused one.
            match call(libc::SYS_ioctl, &[0, libc::TIOCSTI as usize, zeroes]) {
                Err(error) if error.raw_os_error() == Some(libc::ENOTTY) => Ok(()),
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
                other => other,
            }
        }
        "newer-call" => match call(libc::SYS_mseal + 7, &[0]) {
            // `file_setattr` exists only from Linux 6.17.
            Err(error) if error.raw_os_error() != Some(libc::ENOSYS) => Ok(()),
            other => other,
        },
        #[cfg(target_arch = "x86_64")]
        "other-architecture" => {
            let number: usize;
            // SAFETY: `getpid` by the rules of 32-bit x86, which takes no argument and changes
            // nothing. It does not use the register that the compiler reserves.
            unsafe { std::arch::asm!("int 0x80", inlateout("rax") 20_usize => number) };
            if number > 0 && number < 1 << 30 { Ok(()) } else { Err(io::Error::other("none")) }
        }
        #[cfg(target_arch = "x86_64")]
        "x32" => match call(0x4000_0000 + libc::SYS_getpid, &[]) {
            // Most kernels do not have this call. Only the attempt matters here.
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => Ok(()),
            other => other,
        },
        _ => Err(io::Error::other(format!("no attempt is called `{name}`"))),
    }
}

/// Climbs out through the working directory, more levels than any root is deep.
fn climb(path: &str) -> io::Result<()> {
    let here = fs::File::open(".")?;
    let path = text(&format!("{}{path}", "../".repeat(40)))?;
    call(libc::SYS_openat, &[here.as_raw_fd() as usize, path.as_ptr() as usize, 0])
}

fn read_memory(pid: usize) -> io::Result<()> {
    let mut byte = 0_u8;
    let local = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let remote = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 1 };
    let (local, remote) = (&raw const local as usize, &raw const remote as usize);
    match call(libc::SYS_process_vm_readv, &[pid, local, 1, remote, 1, 0]) {
        // Nothing is at the address. Only a permitted call finds that out.
        Err(error) if error.raw_os_error() == Some(libc::EFAULT) => Ok(()),
        other => other,
    }
}

fn open_by_handle(path: usize) -> io::Result<()> {
    let mut handle = [0_u32; 64];
    handle[0] = 128;
    let mut mount = 0_i32;
    let at = [libc::AT_FDCWD as usize, path, handle.as_mut_ptr() as usize];
    call(libc::SYS_name_to_handle_at, &[at[0], at[1], at[2], &raw mut mount as usize, 0])?;
    call(libc::SYS_open_by_handle_at, &[at[0], at[2], 0])
}

/// Runs a setuid program, and reports its result.
fn run(path: &str) -> io::Result<()> {
    let output = Command::new(path).arg("-u").output()?;
    match String::from_utf8_lossy(&output.stdout).trim() {
        "0" => Ok(()),
        other => Err(io::Error::other(format!("is user {other}"))),
    }
}

fn fork(number: libc::c_long, arguments: &[usize]) -> io::Result<()> {
    match raw(number, arguments) {
        0 => std::process::exit(0),
        child if child < 0 => Err(io::Error::last_os_error()),
        child => call(libc::SYS_wait4, &[child as usize, 0, libc::__WALL as usize, 0]),
    }
}

/// CLOSE_RANGE_UNSHARE, linux/close_range.h.
const CLOSE_RANGE_UNSHARE: usize = 2;

/// Installs this process's own filter, and returns the descriptor of its listener.
fn listen_to_filter() -> io::Result<usize> {
    let allow = sock_filter {
        code: (libc::BPF_RET | libc::BPF_K) as u16,
        jt: 0,
        jf: 0,
        k: libc::SECCOMP_RET_ALLOW,
    };
    let program = libc::sock_fprog { len: 1, filter: (&raw const allow).cast_mut().cast() };
    call(libc::SYS_prctl, &[libc::PR_SET_NO_NEW_PRIVS as usize, 1, 0, 0, 0])?;
    let mode = libc::SECCOMP_SET_MODE_FILTER as usize;
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER as usize;
    match raw(libc::SYS_seccomp, &[mode, flags, (&raw const program) as usize]) {
        listener @ 0.. => Ok(listener as usize),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Takes a lock that belongs to no process, and looks for it in the list of the machine's locks.
fn see_locks() -> io::Result<()> {
    let own = fs::File::open("/proc/self/exe")?;
    let lock = libc::flock {
        l_type: libc::F_RDLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 1,
        l_pid: 0,
    };
    let command = libc::F_OFD_SETLK as usize;
    call(libc::SYS_fcntl, &[own.as_raw_fd() as usize, command, (&raw const lock) as usize])?;
    match fs::read_to_string("/proc/locks")?.contains("OFDLCK") {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(libc::ENOENT)),
    }
}

fn call(number: libc::c_long, arguments: &[usize]) -> io::Result<()> {
    if raw(number, arguments) < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn raw(number: libc::c_long, arguments: &[usize]) -> libc::c_long {
    let argument = |index: usize| arguments.get(index).copied().unwrap_or(0);
    let [a, b, c, d, e, f] = [0, 1, 2, 3, 4, 5].map(argument);
    // SAFETY: every address that a caller passes points to a live object. The call does not change
    // the object, or it is large enough for the result.
    unsafe { libc::syscall(number, a, b, c, d, e, f) }
}

fn text(text: &str) -> io::Result<CString> {
    CString::new(text).map_err(io::Error::other)
}

fn number(text: &str) -> io::Result<usize> {
    text.parse::<isize>().map(|number| number as usize).map_err(io::Error::other)
}

/// Runs a program that cannot create namespaces, as in many containers. The same applies to
/// everything that the program starts. Returns only if the program cannot be run.
fn run_without_namespaces(command: &[String]) -> io::Error {
    let [program, arguments @ ..] = command else { return io::ErrorKind::InvalidInput.into() };
    let installed =
        filter().and_then(|filter| seccompiler::apply_filter(&filter).map_err(io::Error::other));
    if let Err(error) = installed {
        return error;
    }
    Command::new(program).args(arguments).exec()
}

/// Runs a program under a filter with a listener, as in some containers. The kernel gives no
/// process a second listener. The same applies to everything that the program starts. Returns only
/// if the program cannot be run.
fn run_under_a_listener(command: &[String]) -> io::Error {
    let [program, arguments @ ..] = command else { return io::ErrorKind::InvalidInput.into() };
    // The listener stays open across the exec, since the filter counts for as long as a process has
    // it open.
    let kept = listen_to_filter()
        .and_then(|listener| call(libc::SYS_fcntl, &[listener, libc::F_SETFD as usize, 0]));
    match kept {
        Ok(()) => Command::new(program).args(arguments).exec(),
        Err(error) => error,
    }
}

/// Runs a program while `count` descriptors are in flight between processes of its user. Returns
/// only if the program cannot be run.
fn run_with_descriptors_in_flight(command: &[String]) -> io::Error {
    let [count, program, arguments @ ..] = command else {
        return io::ErrorKind::InvalidInput.into();
    };
    // The program inherits both ends of the socket, which keeps the message from being dropped.
    match number(count).and_then(pass_descriptors) {
        Ok(_ends) => Command::new(program).args(arguments).exec(),
        Err(error) => error,
    }
}

/// Sends descriptors to itself without receiving any, until the kernel refuses. Leaves a process
/// behind that keeps them open.
fn fill_flight() -> io::Result<()> {
    let mut passed = Vec::new();
    let refused = loop {
        match pass_descriptors(MOST_PASSED) {
            Ok(ends) => passed.push(ends),
            Err(error) => break error,
        }
    };
    // `sleep` keeps all of them open until the end of the call.
    Command::new("sleep").arg("1000").stdout(Stdio::null()).spawn()?;
    std::mem::forget(passed);
    Err(refused)
}

/// The most descriptors that the kernel takes in one message (SCM_MAX_FD).
const MOST_PASSED: usize = 253;

/// Sends `count` copies of stdin in one message, and returns the two ends, which programs inherit.
fn pass_descriptors(count: usize) -> io::Result<[OwnedFd; 2]> {
    let sent = vec![rustix::stdio::stdin(); count];
    let flags = SocketFlags::empty();
    let (end, peer) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_PASSED))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&sent));
    rustix::net::sendmsg(&end, &[IoSlice::new(b"x")], &mut ancillary, SendFlags::empty())?;
    Ok([end, peer])
}

fn filter() -> io::Result<BpfProgram> {
    let makes_namespace = |flag: i32| {
        let flag = flag as u64;
        let condition =
            SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(flag), flag);
        condition.and_then(|condition| SeccompRule::new(vec![condition]))
    };
    let namespaces = [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
    ];
    let clone = namespaces.map(makes_namespace).into_iter().collect::<Result<_, _>>();
    let rules = [
        (libc::SYS_clone, clone.map_err(io::Error::other)?),
        (libc::SYS_clone3, Vec::new()),
        (libc::SYS_unshare, Vec::new()),
    ];
    let arch = env::consts::ARCH.try_into().map_err(io::Error::other)?;
    // A C library uses `clone` if `clone3` is missing.
    let missing = SeccompAction::Errno(libc::ENOSYS as u32);
    SeccompFilter::new(rules.into_iter().collect(), SeccompAction::Allow, missing, arch)
        .and_then(BpfProgram::try_from)
        .map_err(io::Error::other)
}

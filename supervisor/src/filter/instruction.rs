//! The instructions of a filter, as the kernel reads them: `linux/bpf_common.h`.

use seccompiler::sock_filter;

/// The offsets in `seccomp_data`. Of an argument it is that of the low half.
pub(crate) const NUMBER: u32 = 0;
pub(crate) const ARCHITECTURE: u32 = 4;
pub(crate) const FIRST: u32 = 16;
pub(crate) const SECOND: u32 = 24;
pub(crate) const THIRD: u32 = 32;
pub(crate) const FOURTH: u32 = 40;

/// The distance from the low half of an argument to its high half.
pub(crate) const HIGH: u32 = 4;

pub(crate) const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
pub(crate) const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

pub(crate) fn line(code: u32, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt, jf, k }
}

pub(crate) fn jump(condition: u32, jt: u8, jf: u8, k: u32) -> sock_filter {
    line(libc::BPF_JMP | condition | libc::BPF_K, jt, jf, k)
}

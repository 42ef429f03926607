//! The targets of a release: the names that each channel has for a processor and a C library.
//!
//! Knows nothing about builds or files. A new target gets a row in [`TARGETS`].

/// A processor for which ikigai is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Processor {
    X86_64,
    Aarch64,
}

/// The C library of the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CLibrary {
    /// glibc, in any version from [`GLIBC_FLOOR`] on.
    Glibc,
    /// musl, linked statically.
    Musl,
}

/// A target of a release.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ReleaseTarget {
    /// The name of rustc for this target.
    pub(crate) triple: &'static str,
    pub(crate) processor: Processor,
    pub(crate) library: CLibrary,
}

/// The targets of a release, the most common first.
pub(crate) const TARGETS: [ReleaseTarget; 4] = [
    ReleaseTarget {
        triple: "x86_64-unknown-linux-gnu",
        processor: Processor::X86_64,
        library: CLibrary::Glibc,
    },
    ReleaseTarget {
        triple: "aarch64-unknown-linux-gnu",
        processor: Processor::Aarch64,
        library: CLibrary::Glibc,
    },
    ReleaseTarget {
        triple: "x86_64-unknown-linux-musl",
        processor: Processor::X86_64,
        library: CLibrary::Musl,
    },
    ReleaseTarget {
        triple: "aarch64-unknown-linux-musl",
        processor: Processor::Aarch64,
        library: CLibrary::Musl,
    },
];

/// The oldest glibc that the programs of a release run with: that of Debian 10 and RHEL 8.
pub(crate) const GLIBC_FLOOR: GlibcVersion = GlibcVersion { major: 2, minor: 28 };

/// A version of glibc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GlibcVersion {
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

impl std::fmt::Display for GlibcVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl ReleaseTarget {
    /// Returns the target with this triple.
    pub(crate) fn named(triple: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.triple == triple)
    }

    /// Returns the name that cargo-zigbuild takes: with the oldest glibc to link with.
    pub(crate) fn zig_triple(&self) -> String {
        match self.library {
            CLibrary::Glibc => format!("{}.{GLIBC_FLOOR}", self.triple),
            CLibrary::Musl => self.triple.to_owned(),
        }
    }

    /// Returns the name of the npm package with the programs.
    pub(crate) fn npm_package(&self) -> String {
        let suffix = match self.library {
            CLibrary::Glibc => "",
            CLibrary::Musl => "-musl",
        };
        format!("ikigai-linux-{}{suffix}", self.npm_cpu())
    }

    /// Returns the processor's name in `cpu` of a `package.json`.
    pub(crate) fn npm_cpu(&self) -> &'static str {
        match self.processor {
            Processor::X86_64 => "x64",
            Processor::Aarch64 => "arm64",
        }
    }

    /// Returns the C library's name in `libc` of a `package.json`.
    pub(crate) fn npm_libc(&self) -> &'static str {
        match self.library {
            CLibrary::Glibc => "glibc",
            CLibrary::Musl => "musl",
        }
    }

    /// Returns the platform tag of a wheel whose programs need this glibc.
    pub(crate) fn wheel_platform(&self, glibc: GlibcVersion) -> String {
        let processor = match self.processor {
            Processor::X86_64 => "x86_64",
            Processor::Aarch64 => "aarch64",
        };
        match self.library {
            CLibrary::Glibc => format!("manylinux_{}_{}_{processor}", glibc.major, glibc.minor),
            // The programs are static, so the oldest tag is true.
            CLibrary::Musl => format!("musllinux_1_1_{processor}"),
        }
    }

    /// Returns Debian's name for the processor.
    pub(crate) fn debian_architecture(&self) -> &'static str {
        match self.processor {
            Processor::X86_64 => "amd64",
            Processor::Aarch64 => "arm64",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_target_has_names_of_its_own() {
        let names = |name: fn(&ReleaseTarget) -> String| {
            let mut names: Vec<_> = TARGETS.iter().map(name).collect();
            names.sort();
            names.dedup();
            names.len()
        };
        assert_eq!(names(|target| target.triple.to_owned()), TARGETS.len());
        assert_eq!(names(ReleaseTarget::npm_package), TARGETS.len());
        assert_eq!(names(|target| target.wheel_platform(GLIBC_FLOOR)), TARGETS.len());
    }

    #[test]
    fn zig_links_with_an_old_glibc() {
        let target = ReleaseTarget::named("aarch64-unknown-linux-gnu").expect("a target");
        assert_eq!(target.zig_triple(), "aarch64-unknown-linux-gnu.2.28");
        assert_eq!(target.wheel_platform(GLIBC_FLOOR), "manylinux_2_28_aarch64");
        assert!(GlibcVersion { major: 2, minor: 4 } < GLIBC_FLOOR);
    }
}

//! The table of toolchains: the parts of each toolchain, and the places where its managers keep
//! them.
//!
//! A directory is listed with the variable that moves it and with its usual place in the home. To
//! support another manager, add its places to the toolchain here. Leave out every file that may
//! contain a token or a password: if a directory has such a file, list only the parts that programs
//! need.

use std::path::PathBuf;

use super::{Toolchain, ToolchainContext};

/// A directory that a manager owns.
#[derive(Clone, Copy, Debug)]
pub(super) struct ManagerDir {
    /// The variables that name it, each with the path below its value.
    variables: &'static [(&'static str, &'static str)],
    /// Its usual places, in the home or absolute. One `*` in a name stands for any characters.
    usual: &'static [&'static str],
}

impl ManagerDir {
    /// Returns its possible paths, with the most specific first.
    pub(super) fn candidates(self, machine: &ToolchainContext<'_>) -> Vec<PathBuf> {
        let set = self.variables.iter().filter_map(|(name, below)| {
            let value = (machine.variable)(name).map(PathBuf::from)?;
            // A relative path would depend on the working directory.
            value.is_absolute().then(|| if below.is_empty() { value } else { value.join(below) })
        });
        set.chain(self.usual.iter().map(|path| machine.home.join(path))).collect()
    }
}

/// The access that programs need to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlaceNeed {
    /// They read it.
    Read,
    /// They fail if they cannot write there.
    Write,
    /// They write there only to store downloads.
    Download,
}

/// A part of a directory that a manager owns.
#[derive(Clone, Copy, Debug)]
pub(super) struct ManagedPlace {
    pub(super) root: ManagerDir,
    /// The part, as a path below the root; all of it if empty. One `*` in a name stands for any
    /// characters.
    pub(super) part: &'static str,
    pub(super) need: PlaceNeed,
    /// A description of its contents, for the user.
    pub(super) holds: &'static str,
}

const fn root(
    variables: &'static [(&'static str, &'static str)],
    usual: &'static [&'static str],
) -> ManagerDir {
    ManagerDir { variables, usual }
}

const fn read(root: ManagerDir, part: &'static str, holds: &'static str) -> ManagedPlace {
    ManagedPlace { root, part, need: PlaceNeed::Read, holds }
}

const fn write(root: ManagerDir, part: &'static str, holds: &'static str) -> ManagedPlace {
    ManagedPlace { root, part, need: PlaceNeed::Write, holds }
}

const fn download(root: ManagerDir, part: &'static str, holds: &'static str) -> ManagedPlace {
    ManagedPlace { root, part, need: PlaceNeed::Download, holds }
}

// Managers of several languages. Their shims look for a configuration that may contain secrets, so
// only the installed versions are granted.
const MISE: ManagerDir =
    root(&[("MISE_DATA_DIR", ""), ("XDG_DATA_HOME", "mise")], &[".local/share/mise"]);
const ASDF: ManagerDir = root(&[("ASDF_DATA_DIR", "")], &[".asdf"]);
const CONDA: ManagerDir = root(
    &[("MAMBA_ROOT_PREFIX", "")],
    &["miniconda3", "miniforge3", "anaconda3", "mambaforge", "micromamba", "miniconda", "anaconda"],
);

const CARGO: ManagerDir = root(&[("CARGO_HOME", "")], &[".cargo"]);
const RUSTUP: ManagerDir = root(&[("RUSTUP_HOME", "")], &[".rustup"]);

const RUST: Toolchain = Toolchain {
    name: "rust",
    programs: &["cargo", "rustc", "rustup"],
    places: &[
        read(CARGO, "bin", "cargo and what it installed"),
        download(CARGO, "registry", "downloaded crates"),
        download(CARGO, "git", "crates from git"),
        read(RUSTUP, "", "compilers and the standard library"),
        read(MISE, "installs/rust", "versions of mise"),
        read(ASDF, "installs/rust", "versions of asdf"),
    ],
    bins: &[(CARGO, "bin"), (MISE, "installs/rust/*/bin"), (ASDF, "installs/rust/*/bin")],
    variables: &["CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"],
    withheld: &[
        (CARGO, "config.toml"),
        (CARGO, "config"),
        (CARGO, "credentials.toml"),
        (CARGO, "credentials"),
    ],
    hosts: &["index.crates.io:443", "static.crates.io:443"],
};

const NVM: ManagerDir = root(&[("NVM_DIR", "")], &[".nvm", ".config/nvm"]);
const FNM: ManagerDir =
    root(&[("FNM_DIR", ""), ("XDG_DATA_HOME", "fnm")], &[".local/share/fnm", ".fnm"]);
const VOLTA: ManagerDir = root(&[("VOLTA_HOME", "")], &[".volta"]);
const N: ManagerDir = root(&[("N_PREFIX", "")], &[]);
const NODENV: ManagerDir = root(&[("NODENV_ROOT", "")], &[".nodenv"]);
const NPM: ManagerDir = root(&[("npm_config_cache", "")], &[".npm"]);
const PNPM: ManagerDir =
    root(&[("PNPM_HOME", ""), ("XDG_DATA_HOME", "pnpm")], &[".local/share/pnpm"]);
const YARN: ManagerDir =
    root(&[("YARN_CACHE_FOLDER", ""), ("XDG_CACHE_HOME", "yarn")], &[".cache/yarn"]);
const BERRY: ManagerDir = root(&[("YARN_GLOBAL_FOLDER", "")], &[".yarn/berry"]);
const COREPACK: ManagerDir =
    root(&[("COREPACK_HOME", ""), ("XDG_CACHE_HOME", "node/corepack")], &[".cache/node/corepack"]);
const HOME: ManagerDir = root(&[], &[""]);

const NODE: Toolchain = Toolchain {
    name: "node",
    programs: &["node", "npm", "npx", "pnpm", "yarn", "corepack"],
    places: &[
        read(NVM, "versions", "versions of nvm"),
        read(NVM, "alias", "the names of versions of nvm"),
        read(NVM, "nvm.sh", "nvm itself"),
        read(FNM, "", "versions of fnm"),
        read(VOLTA, "", "versions of volta"),
        read(N, "", "the version of n"),
        read(NODENV, "", "versions of nodenv"),
        read(MISE, "installs/node", "versions of mise"),
        read(ASDF, "installs/nodejs", "versions of asdf"),
        read(COREPACK, "", "package managers of corepack"),
        download(NPM, "_cacache", "packages that npm downloaded"),
        // It contains programs, and it is in the user's `PATH`. So no tool may write there.
        read(PNPM, "", "programs and packages of pnpm"),
        download(YARN, "", "packages that yarn downloaded"),
        download(BERRY, "", "packages that yarn downloaded"),
    ],
    bins: &[
        (VOLTA, "bin"),
        (FNM, "aliases/default/bin"),
        (FNM, "node-versions/*/installation/bin"),
        (NVM, "versions/node/*/bin"),
        (N, "bin"),
        (NODENV, "shims"),
        (MISE, "installs/node/*/bin"),
        (ASDF, "installs/nodejs/*/bin"),
        (PNPM, ""),
    ],
    variables: &[
        "NVM_DIR",
        "FNM_DIR",
        "VOLTA_HOME",
        "N_PREFIX",
        "NODENV_ROOT",
        "NODENV_VERSION",
        "PNPM_HOME",
        "COREPACK_HOME",
        "npm_config_cache",
    ],
    withheld: &[(HOME, ".npmrc"), (HOME, ".yarnrc"), (HOME, ".yarnrc.yml")],
    hosts: &["registry.npmjs.org:443"],
};

const PYENV: ManagerDir = root(&[("PYENV_ROOT", "")], &[".pyenv"]);
const UV_PYTHON: ManagerDir = root(
    &[("UV_PYTHON_INSTALL_DIR", ""), ("XDG_DATA_HOME", "uv/python")],
    &[".local/share/uv/python"],
);
const UV_TOOLS: ManagerDir =
    root(&[("UV_TOOL_DIR", ""), ("XDG_DATA_HOME", "uv/tools")], &[".local/share/uv/tools"]);
const UV_CACHE: ManagerDir =
    root(&[("UV_CACHE_DIR", ""), ("XDG_CACHE_HOME", "uv")], &[".cache/uv"]);
const PIP: ManagerDir = root(&[("PIP_CACHE_DIR", ""), ("XDG_CACHE_HOME", "pip")], &[".cache/pip"]);
const PIPX: ManagerDir =
    root(&[("PIPX_HOME", ""), ("XDG_DATA_HOME", "pipx")], &[".local/share/pipx", ".local/pipx"]);
const POETRY: ManagerDir =
    root(&[("POETRY_CACHE_DIR", ""), ("XDG_CACHE_HOME", "pypoetry")], &[".cache/pypoetry"]);
const POETRY_ITSELF: ManagerDir =
    root(&[("POETRY_HOME", ""), ("XDG_DATA_HOME", "pypoetry")], &[".local/share/pypoetry"]);
const VIRTUALENVS: ManagerDir =
    root(&[("WORKON_HOME", "")], &[".virtualenvs", ".local/share/virtualenvs"]);
const USER_SITE: ManagerDir = root(&[("PYTHONUSERBASE", "lib")], &[".local/lib"]);

const PYTHON: Toolchain = Toolchain {
    name: "python",
    programs: &[
        "python3", "python", "pip", "pip3", "pytest", "uv", "uvx", "pipx", "poetry", "pyenv",
        "conda", "mamba",
    ],
    places: &[
        read(PYENV, "", "versions of pyenv"),
        read(UV_PYTHON, "", "versions of uv"),
        read(UV_TOOLS, "", "programs that uv installed"),
        // uv does not start without a writable cache.
        write(UV_CACHE, "", "the cache of uv"),
        read(CONDA, "bin", "programs of conda"),
        read(CONDA, "condabin", "conda itself"),
        read(CONDA, "envs", "environments of conda"),
        read(CONDA, "include", "headers of conda"),
        read(CONDA, "lib", "libraries of conda"),
        read(CONDA, "libexec", "programs of conda"),
        read(CONDA, "conda-meta", "the list of conda's packages"),
        read(CONDA, "share", "data of conda's packages"),
        read(CONDA, "ssl", "certificates of conda"),
        read(PIPX, "venvs", "programs that pipx installed"),
        read(POETRY, "virtualenvs", "environments of poetry"),
        read(POETRY_ITSELF, "venv", "poetry itself"),
        read(VIRTUALENVS, "", "virtual environments"),
        read(USER_SITE, "python*", "packages of your own"),
        read(MISE, "installs/python", "versions of mise"),
        read(ASDF, "installs/python", "versions of asdf"),
        download(PIP, "", "packages that pip downloaded"),
    ],
    bins: &[
        (PYENV, "shims"),
        (PYENV, "bin"),
        (UV_PYTHON, "cpython-*/bin"),
        (CONDA, "bin"),
        (MISE, "installs/python/*/bin"),
        (ASDF, "installs/python/*/bin"),
    ],
    variables: &[
        "PYENV_ROOT",
        "PYENV_VERSION",
        "UV_PYTHON_INSTALL_DIR",
        "UV_TOOL_DIR",
        "UV_CACHE_DIR",
        "PIP_CACHE_DIR",
        "PIPX_HOME",
        "WORKON_HOME",
        "PYTHONUSERBASE",
        "CONDA_PREFIX",
        "CONDA_DEFAULT_ENV",
        "MAMBA_ROOT_PREFIX",
        "VIRTUAL_ENV",
    ],
    withheld: &[
        (HOME, ".pypirc"),
        (HOME, ".pip/pip.conf"),
        (HOME, ".config/pip/pip.conf"),
        (HOME, ".config/uv/uv.toml"),
        (HOME, ".condarc"),
    ],
    hosts: &["pypi.org:443", "files.pythonhosted.org:443"],
};

const GOROOT: ManagerDir = root(&[("GOROOT", "")], &[]);
const GOPATH: ManagerDir = root(&[("GOPATH", "")], &["go"]);
const GO_MODULES: ManagerDir = root(&[("GOMODCACHE", ""), ("GOPATH", "pkg/mod")], &["go/pkg/mod"]);
const GO_CACHE: ManagerDir =
    root(&[("GOCACHE", ""), ("XDG_CACHE_HOME", "go-build")], &[".cache/go-build"]);
const GOENV: ManagerDir = root(&[("GOENV_ROOT", "")], &[".goenv"]);

const GO: Toolchain = Toolchain {
    name: "go",
    programs: &["go", "gofmt", "gopls"],
    places: &[
        read(GOROOT, "", "the compiler and the standard library"),
        read(HOME, "sdk/go*", "versions of golang.org/dl"),
        read(HOME, ".local/go", "the compiler and the standard library"),
        read(GOENV, "", "versions of goenv"),
        read(GOPATH, "bin", "programs that go installed"),
        download(GO_MODULES, "", "downloaded modules"),
        // Without a cache, go compiles the standard library in each call, in memory.
        write(GO_CACHE, "", "compiled packages"),
        read(MISE, "installs/go", "versions of mise"),
        read(ASDF, "installs/golang", "versions of asdf"),
    ],
    bins: &[
        (GOROOT, "bin"),
        (HOME, "sdk/go*/bin"),
        (HOME, ".local/go/bin"),
        (GOENV, "shims"),
        (MISE, "installs/go/*/bin"),
        (ASDF, "installs/golang/*/go/bin"),
        (GOPATH, "bin"),
    ],
    variables: &["GOROOT", "GOPATH", "GOMODCACHE", "GOCACHE", "GOENV_ROOT", "GOTOOLCHAIN"],
    withheld: &[(HOME, ".config/go/env")],
    hosts: &["proxy.golang.org:443", "sum.golang.org:443", "storage.googleapis.com:443"],
};

const SDKMAN: ManagerDir = root(&[("SDKMAN_DIR", "")], &[".sdkman"]);
const JAVA_HOME: ManagerDir = root(&[("JAVA_HOME", "")], &[]);
const M2: ManagerDir = root(&[], &[".m2"]);
const GRADLE: ManagerDir = root(&[("GRADLE_USER_HOME", "")], &[".gradle"]);
const ETC: ManagerDir = root(&[], &["/etc"]);

const JAVA: Toolchain = Toolchain {
    name: "java",
    programs: &["java", "javac", "mvn", "gradle", "kotlinc", "jbang"],
    places: &[
        read(JAVA_HOME, "", "the Java of JAVA_HOME"),
        read(SDKMAN, "candidates", "versions of sdkman"),
        read(HOME, ".jdks", "versions that an editor downloaded"),
        read(HOME, ".jabba/jdk", "versions of jabba"),
        // A distribution's Java has links that lead there.
        read(ETC, "java-*", "the settings of the system's Java"),
        // List only these parts: the other settings may contain passwords of repositories.
        read(ETC, "maven/m2.conf", "the start of the system's Maven"),
        read(ETC, "maven/logging", "the logging of the system's Maven"),
        download(M2, "repository", "artifacts that Maven downloaded"),
        read(M2, "wrapper", "versions of the Maven wrapper"),
        // Gradle locks files there in every command.
        write(GRADLE, "caches", "the caches of Gradle"),
        write(GRADLE, "wrapper", "versions of the Gradle wrapper"),
        read(GRADLE, "jdks", "versions that Gradle downloaded"),
        read(MISE, "installs/java", "versions of mise"),
        read(ASDF, "installs/java", "versions of asdf"),
    ],
    bins: &[
        (JAVA_HOME, "bin"),
        (SDKMAN, "candidates/java/current/bin"),
        (SDKMAN, "candidates/maven/current/bin"),
        (SDKMAN, "candidates/gradle/current/bin"),
        (SDKMAN, "candidates/kotlin/current/bin"),
        (HOME, ".jabba/jdk/*/bin"),
        (HOME, ".jdks/*/bin"),
        (MISE, "installs/java/*/bin"),
        (ASDF, "installs/java/*/bin"),
    ],
    variables: &["JAVA_HOME", "SDKMAN_DIR", "GRADLE_USER_HOME"],
    withheld: &[
        (M2, "settings.xml"),
        (M2, "settings-security.xml"),
        (ETC, "maven/settings.xml"),
        (GRADLE, "gradle.properties"),
        (GRADLE, "init.gradle"),
    ],
    hosts: &[
        "repo.maven.apache.org:443",
        "repo1.maven.org:443",
        "plugins.gradle.org:443",
        "services.gradle.org:443",
    ],
};

const RBENV: ManagerDir = root(&[("RBENV_ROOT", "")], &[".rbenv"]);
const GEMS: ManagerDir = root(&[("GEM_HOME", "")], &[".gem/ruby", ".local/share/gem/ruby"]);

const RUBY: Toolchain = Toolchain {
    name: "ruby",
    programs: &["ruby", "gem", "bundle", "rake"],
    places: &[
        read(RBENV, "", "versions of rbenv"),
        read(HOME, ".rvm", "versions of rvm"),
        read(GEMS, "", "gems of your own"),
        download(HOME, ".bundle/cache", "gems that Bundler downloaded"),
        read(MISE, "installs/ruby", "versions of mise"),
        read(ASDF, "installs/ruby", "versions of asdf"),
    ],
    bins: &[
        (RBENV, "shims"),
        (RBENV, "bin"),
        (HOME, ".rvm/rubies/ruby-*/bin"),
        (MISE, "installs/ruby/*/bin"),
        (ASDF, "installs/ruby/*/bin"),
    ],
    variables: &["RBENV_ROOT", "RBENV_VERSION", "GEM_HOME", "GEM_PATH"],
    withheld: &[(HOME, ".gem/credentials"), (HOME, ".bundle/config")],
    hosts: &["rubygems.org:443", "index.rubygems.org:443"],
};

const DOTNET_ROOT: ManagerDir = root(&[("DOTNET_ROOT", "")], &[".dotnet"]);
const NUGET: ManagerDir = root(&[("NUGET_PACKAGES", "")], &[".nuget/packages"]);

const DOTNET: Toolchain = Toolchain {
    name: "dotnet",
    programs: &["dotnet"],
    places: &[
        // The subdirectory `corefx` has private keys.
        read(DOTNET_ROOT, "dotnet", "the program of .NET"),
        read(DOTNET_ROOT, "host", "the start of programs of .NET"),
        read(DOTNET_ROOT, "shared", "runtimes of .NET"),
        read(DOTNET_ROOT, "sdk", "compilers of .NET"),
        read(DOTNET_ROOT, "sdk-manifests", "the parts of each SDK of .NET"),
        read(DOTNET_ROOT, "packs", "libraries of .NET"),
        read(DOTNET_ROOT, "templates", "templates of .NET"),
        download(NUGET, "", "packages that NuGet downloaded"),
        read(MISE, "installs/dotnet", "versions of mise"),
        read(ASDF, "installs/dotnet", "versions of asdf"),
    ],
    bins: &[(DOTNET_ROOT, "")],
    variables: &["DOTNET_ROOT", "NUGET_PACKAGES"],
    withheld: &[(HOME, ".nuget/NuGet/NuGet.Config")],
    hosts: &["api.nuget.org:443"],
};

const DENO_ROOT: ManagerDir = root(&[("DENO_INSTALL", ""), ("DENO_INSTALL_ROOT", "")], &[".deno"]);
const DENO_CACHE: ManagerDir =
    root(&[("DENO_DIR", ""), ("XDG_CACHE_HOME", "deno")], &[".cache/deno"]);

const DENO: Toolchain = Toolchain {
    name: "deno",
    programs: &["deno"],
    places: &[
        read(DENO_ROOT, "bin", "deno and what it installed"),
        download(DENO_CACHE, "", "downloaded modules"),
        read(MISE, "installs/deno", "versions of mise"),
        read(ASDF, "installs/deno", "versions of asdf"),
    ],
    bins: &[(DENO_ROOT, "bin"), (MISE, "installs/deno/*/bin"), (ASDF, "installs/deno/*/bin")],
    variables: &["DENO_DIR", "DENO_INSTALL"],
    withheld: &[],
    hosts: &["jsr.io:443", "registry.npmjs.org:443", "deno.land:443"],
};

const BUN_ROOT: ManagerDir = root(&[("BUN_INSTALL", "")], &[".bun"]);

const BUN: Toolchain = Toolchain {
    name: "bun",
    programs: &["bun", "bunx"],
    places: &[
        read(BUN_ROOT, "bin", "bun and what it installed"),
        read(BUN_ROOT, "install/global", "programs that bun installed"),
        download(BUN_ROOT, "install/cache", "packages that bun downloaded"),
        read(MISE, "installs/bun", "versions of mise"),
        read(ASDF, "installs/bun", "versions of asdf"),
    ],
    bins: &[(BUN_ROOT, "bin"), (MISE, "installs/bun/*/bin"), (ASDF, "installs/bun/*/bin")],
    variables: &["BUN_INSTALL"],
    withheld: &[(HOME, ".bunfig.toml")],
    hosts: &["registry.npmjs.org:443"],
};

/// The toolchains that ikigai knows.
pub const TOOLCHAINS: &[Toolchain] = &[RUST, NODE, PYTHON, GO, JAVA, RUBY, DOTNET, DENO, BUN];

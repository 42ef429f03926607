//! The figures of installed tools: verifying a signature at installation, and checking it before
//! each call if the policy requires signatures.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Error, ensure};
use bytes::Bytes;
use ikigai_host::paths::Paths;
use ikigai_host::policy::{Signatures, SignerRule, SignersInForce};
use ikigai_host::{Digest, Host};
use ikigai_supply::signature::{Payload, Signature, SignerKey, SigstoreRoot, SshKey};
use ikigai_supply::trust::{Trust, TrustedIdentity, TrustedSigner};
use ikigai_supply::{LockedTool, Signer, ToolsLock};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _,
    UnparsedPublicKey,
};
use tokio_util::sync::CancellationToken;

use crate::rig::{self, Rig};
use crate::samples::{Samples, in_turn};

/// A bundle of the public instance of Sigstore, as cosign writes them, over [`SIGNED`].
const BUNDLE: &[u8] =
    include_bytes!("../../supply/tests/sigstore-conformance/happy-path-v0.3/bundle.sigstore.json");
const SIGNED: &[u8] = include_bytes!("../../supply/tests/sigstore-conformance/a.txt");

/// A public key whose private half was thrown away.
const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";

/// The tool that is called.
const TOOL: &str = "bench_tool_0000";

/// Measures the verification of a bundle with a trusted root that was read, and with the reading.
pub(crate) fn bundle(rig: &Rig) -> anyhow::Result<Samples> {
    let root = SigstoreRoot::compiled_in()?;
    let verify = |root: &SigstoreRoot| {
        let payload = Payload { file: SIGNED, manifest: None };
        let signed = Signature::parse(BUNDLE)?.verify(payload, &[], root)?;
        ensure!(matches!(signed.signer, Signer::Sigstore(_)), "another signer: {signed:?}");
        Ok(())
    };
    let one = OneSignature::make()?;
    in_turn(
        rig.rounds(5),
        &mut [
            ("verify", 4, &mut || verify(&root)),
            ("with root", 4, &mut || verify(&SigstoreRoot::compiled_in()?)),
            ("limit", 4, &mut || one.verify()),
        ],
    )
}

/// One signature over [`SIGNED`] by a curve that Sigstore uses. A bundle has several.
struct OneSignature {
    key: Vec<u8>,
    signature: Vec<u8>,
}

impl OneSignature {
    fn make() -> anyhow::Result<Self> {
        let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_ASN1_SIGNING);
        let failed = |_| Error::msg("no key of P-256 can be made");
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).map_err(failed)?;
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random)
            .map_err(|error| Error::msg(error.to_string()))?;
        let signature = pair.sign(&random, SIGNED).map_err(failed)?.as_ref().to_vec();
        Ok(Self { key: pair.public_key().as_ref().to_vec(), signature })
    }

    fn verify(&self) -> anyhow::Result<()> {
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, &self.key)
            .verify(SIGNED, &self.signature)
            .map_err(|_| Error::msg("the signature does not verify"))
    }
}

/// Measures what required signatures add to a call. Both policies deny the calls for another
/// reason, after that check, so that no guest takes part. Measure on one processor: with two,
/// handing a call over to its thread varies by more than the check takes.
pub(crate) fn required(rig: &Rig) -> anyhow::Result<Samples> {
    let tree = rig.small_tree();
    let runtime = rig::runtime()?;
    let scratch = tempfile::tempdir()?;
    let guest = rig.guest("guest.wasm");
    let tools = scratch.path().join("tools");
    fs::create_dir(&tools)?;
    let tool = tools.join("bench-tool.wasm");
    fs::copy(&guest, &tool)?;
    let key = SignerKey::Ssh(SshKey::parse(KEY)?);
    let locks = [scratch.path().join("tools.lock"), scratch.path().join("approved.lock")];
    let contents = rig::read(&tool)?;
    fs::write(&locks[0], lock(&contents, key.signer())?)?;
    // The directory does not exist. That ends the call after the signature check.
    let denying = format!(
        "[tools.{TOOL}]\nsha256 = [\"{}\"]\nfs = [\"ro:nowhere\"]\n[signers.bench]\nssh = \"{KEY}\"\n",
        Digest::from_bytes(&contents)
    );
    let host = |name: &str, text: &str| -> anyhow::Result<Arc<Host>> {
        let policy = scratch.path().join(name);
        fs::write(&policy, text)?;
        fs::set_permissions(&policy, fs::Permissions::from_mode(0o600))?;
        let paths = Paths {
            user_tools: Some(tools.clone()),
            policy: Some(policy),
            cache: Some(scratch.path().join("cache")),
            state: Some(scratch.path().join("state")),
            ..rig.paths()
        };
        let signatures = Arc::new(Locked::new(&locks, &key));
        Ok(Host::builder(&tree).paths(paths).signatures(signatures).build()?)
    };
    let required = host("required.toml", &format!("require_signed = true\n{denying}"))?;
    let free = host("free.toml", &denying)?;
    let call = |host: &Arc<Host>, snapshot| {
        let arguments = Bytes::from_static(b"{}");
        let envelope =
            runtime.block_on(host.call(snapshot, TOOL, arguments, CancellationToken::new()));
        let text = format!("{envelope:?}");
        ensure!(text.contains("nowhere"), "the call was not denied for its directory: {text}");
        Ok(())
    };
    let [of_required, of_free] = [&required, &free].map(|host| runtime.block_on(host.refresh()));
    in_turn(
        4 * rig.rounds(5),
        &mut [
            ("required", 40, &mut || call(&required, &of_required)),
            ("free", 40, &mut || call(&free, &of_free)),
        ],
    )
}

/// Returns the text of a lock in which the signer signed the tool, among nineteen others.
fn lock(file: &[u8], signer: Signer) -> anyhow::Result<String> {
    let mut lock = ToolsLock::default();
    let tool = LockedTool {
        version: None,
        from: "oci://localhost/bench/tool".to_owned(),
        wanted: None,
        manifest: None,
        sha256: Digest::from_bytes(file),
        size: file.len() as u64,
        signer,
        needs: None,
    };
    for number in 1..20 {
        lock.put(&format!("bench_tool_{number:04}"), tool.clone())?;
    }
    lock.put(TOOL, tool)?;
    Ok(lock.to_string())
}

/// The signers according to locks, as in the program (`cli/src/shipping/signatures.rs`): each lock
/// is examined before each call, and read again if its file has changed.
struct Locked {
    locks: Vec<(PathBuf, Mutex<Option<Seen>>)>,
    trust: Arc<Trust>,
    of: Mutex<Option<Arc<SignersInForce>>>,
}

/// The metadata of a lock, and its contents.
type Seen = (Option<[i64; 6]>, Arc<ToolsLock>);

impl Locked {
    fn new(locks: &[PathBuf], key: &SignerKey) -> Self {
        let signer = TrustedSigner {
            name: "bench".to_owned(),
            identity: TrustedIdentity::Key(key.clone()),
            tools: None,
            until: None,
        };
        Self {
            locks: locks.iter().map(|path| (path.clone(), Mutex::default())).collect(),
            trust: Arc::new(Trust::new(vec![signer], true)),
            of: Mutex::default(),
        }
    }

    fn trust(&self, signers: &Arc<SignersInForce>) -> Arc<Trust> {
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        if !of.as_ref().is_some_and(|of| Arc::ptr_eq(of, signers)) {
            *of = Some(Arc::clone(signers));
        }
        Arc::clone(&self.trust)
    }
}

impl Signatures for Locked {
    fn check(&self, _: &SignerRule) -> Result<(), String> {
        Ok(())
    }

    fn admit(
        &self,
        tool: &str,
        contents: &[Digest],
        signers: &Arc<SignersInForce>,
    ) -> Result<(), String> {
        let trust = self.trust(signers);
        for digest in contents {
            let mut is_admitted = false;
            for (path, seen) in &self.locks {
                let lock = current(path, seen).map_err(|error| error.to_string())?;
                let Some(locked) = lock.get(tool).filter(|it| it.sha256 == *digest) else {
                    continue;
                };
                trust.admit_call(tool, &locked.signer).map_err(|reason| reason.to_string())?;
                is_admitted = true;
            }
            if !is_admitted {
                return Err(format!("`{tool}` is in no lock"));
            }
        }
        Ok(())
    }
}

/// Returns the current contents of a lock.
fn current(path: &Path, seen: &Mutex<Option<Seen>>) -> anyhow::Result<Arc<ToolsLock>> {
    let identity = fs::metadata(path).ok().map(|it| {
        [
            it.dev().cast_signed(),
            it.ino().cast_signed(),
            it.size().cast_signed(),
            it.mtime(),
            it.mtime_nsec(),
            it.ctime_nsec(),
        ]
    });
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((known, lock)) = &*seen
        && *known == identity
    {
        return Ok(Arc::clone(lock));
    }
    let lock = Arc::new(match identity {
        Some(_) => {
            ToolsLock::parse(&fs::read(path)?).map_err(|error| Error::msg(error.to_string()))?
        }
        None => ToolsLock::default(),
    });
    *seen = Some((identity, Arc::clone(&lock)));
    Ok(lock)
}

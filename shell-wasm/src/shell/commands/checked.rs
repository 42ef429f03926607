//! The check before commands of the interpreter that accept options without effect: it has the
//! options that each of them implements, and refuses the rest before the command is called.

use bashkit::{BashBuilder, Command, CommandContext, CommandStatus, Result, async_trait};

use super::options::OptionSpec;
use super::{inner, text};

const SUMS: &str = "b,binary c,check t,text w,warn ,quiet ,status";

/// The commands, each with the options that it implements, and the exit code of a refusal.
const CHECKED: [(&str, &str, i32); 14] = [
    ("bc", "l,mathlib q,quiet s,standard w,warn", 1),
    ("gunzip", "c,stdout ,to-stdout f,force k,keep q,quiet", 1),
    (
        "install",
        "b c D d,directory g,group= m,mode= o,owner= T,no-target-directory \
                 t,target-directory= v,verbose",
        1,
    ),
    // Without a terminal a pager shows the text.
    (
        "less",
        "c E F I i J M m N n Q q R r S s X ,quit-if-one-screen ,RAW-CONTROL-CHARS \
              ,chop-long-lines ,no-init ,LINE-NUMBERS",
        1,
    ),
    ("md5sum", SUMS, 1),
    ("sha1sum", SUMS, 1),
    ("sha224sum", SUMS, 1),
    ("sha256sum", SUMS, 1),
    ("sha384sum", SUMS, 1),
    ("sha512sum", SUMS, 1),
    ("shasum", "a,algorithm= b,binary c,check t,text w,warn s,status ,quiet", 1),
    (
        "sed",
        "n,quiet ,silent E,regexp-extended r e,expression= f,file= i,in-place[=] l,line-length= \
             s,separate u,unbuffered z,null-data ,zero-terminated ,posix",
        1,
    ),
    // The interpreter accepts --keep-old-files, but overwrites the files anyway.
    (
        "tar",
        "c,create x,extract ,get t,list v,verbose z,gzip j,bzip2 O,to-stdout p,preserve-permissions \
         P,absolute-names T,files-from= f,file= C,directory= ,exclude= ,strip-components= ,overwrite \
         ,no-same-owner ,same-owner ,no-same-permissions ,same-permissions ,numeric-owner",
        2,
    ),
    ("touch", "a c,no-create d,date= f h,no-dereference m r,reference= t= ,time=", 1),
];

/// A command with a check of its options.
struct CheckedCommand(OptionSpec);

/// Adds the check to each of the commands.
pub(super) fn add(builder: BashBuilder) -> BashBuilder {
    CHECKED.into_iter().fold(builder, |builder, (name, words, refusal)| {
        builder.command(name, CheckedCommand(OptionSpec { words, refusal }))
    })
}

#[async_trait]
impl Command for CheckedCommand {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        match self.0.read(&context).await? {
            Ok(_) if context.name == "sed" => text::pass_on(&context).await,
            Ok(_) => inner::pass_on(&context, context.name, context.args).await,
            Err(status) => Ok(status),
        }
    }
}

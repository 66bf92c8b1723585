//! What may be wrong with the protocol, for the checks to find.

durahash_media::listed! {
    /// A step that is left out, comes too early, or is done in another way.
    pub enum Fault {
        /// Step 2 has no fence where it finds the gate closing.
        NoEntrantFence,
        /// Step 4 is left out: a line is marked, and not copied.
        NoSave,
        /// Step 4 raises the mark by a plain store.
        SaveWithoutCas,
        /// Step 6 comes after step 8.
        DirtyAfterGate,
        /// Step 7 comes before step 3.
        MarkAfterStore,
        /// Step 8 is left out.
        NeverOutside,

        /// The gate never closes: the epoch is the next one from G1 on.
        NeverClosed,
        /// G2 is left out.
        NoMembarrier,
        /// G3 has no fence.
        NoSnapshotterFence,
        /// G3 does not look at `inside`.
        NoWaitForInside,
        /// G4 opens by a plain store.
        FlipWithoutCas,

        /// S1 comes only after the cut.
        CopyingLate,
        /// S3 does not look at the mark after the copy.
        NoRecheck,
        /// S4 does not wait for those that are inside.
        SavesNotWaitedFor,
        /// S4 takes what a save list has by a second look, and of all lists so many entries as they had at the first.
        SaveLengthTwice,
        /// S5 does not ask for write-back errors.
        ErrorNotAskedFor,
        /// S5 asks for them before S3.
        ErrorAskedForEarly,
        /// S6 does not wait for room.
        RingReused,
        /// S6 takes the way out by itself, whatever the checkpointer is at.
        WayOutBeside,
        /// A snapshot of nothing is not taken for one of its epoch.
        NothingNotNoted,
        /// S6 does not sync the spill file.
        SpillNotSynced,
        /// S9 comes in the other order.
        AppliedBeforeBitmap,
        /// S9 leaves `applied` as it is.
        NeverApplied,
        /// S10 comes before S6.
        ResetBeforeDurable,
        /// S10 clears marks of any epoch.
        ResetPlain,
        /// S11 leaves the threads' lists as they are.
        ListsNotCleared,

        /// C3 is left out.
        PagesNotWaitedFor,
        /// C3 does not take the way out.
        NoWayOut,
        /// C3 waits for a snapshot that is durable, and not noted.
        DurableIsNoted,
        /// C5 comes before C2.
        HeadBeforeSync,
        /// After the way out, copies from before it are written.
        CopiesKept,
        /// After the way out, the head from before it is written.
        HeadBack,

        /// C4 writes check words after the sync.
        SumsNotSynced,
        /// They are those of the image as it is then.
        SumsOfImage,
        /// The way out writes none.
        WayOutWithoutSums,
        /// Replay leaves the check words as they are.
        SumsNotMarked,

        /// The sums of bodies are not compared.
        NoSum,
        /// The chain is not.
        NoChain,
        /// Replay uses parts that have no final one behind them.
        PartWithoutFinal,

        /// O1 is left out.
        HeadNotRewritten,
        /// O1 writes over the other head.
        HeadElsewhere,
        /// Nobody waits for O1 before he writes.
        WrittenUnsettled,
        /// O2 is left out.
        ClosedHeadKept,
        /// O4 passes over marks that are those of this epoch, or seem so.
        ScanSkipsEqual,
        /// O5 does not wait for the end of the scan.
        ScanNotWaitedFor,
        /// O6 is left out.
        NotReapplied,
        /// A live image that is damaged is opened.
        DamagedIsTrusted,
    }
}

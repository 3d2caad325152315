"""What holds at the end of every schedule, and between any two of its records. I1 … I24 are those of the membership
protocol: steps follow each other and are made with the same samples (I1, I2, I6, I7: the bits of the loss), generations
are committed one after the other (I4, I5), no confirmed step is made again while one that holds the state lives (I10)."""

from job import PLAIN_LINE, STEPS, parameters

KEPT = "compression.residual."


def generations(job):
    """The first record of each (attempt, generation), and the newest step that the one before it had confirmed."""
    known, newest, told, found = (0, 0), 0, 0, []
    for at, record in job.records:
        status = record.get("status", {})
        now = (status.get("attempt", 0), status.get("generation", 0))
        step = status.get("progress", {}).get("step", 0)
        newest = step if step != told else newest
        told = step
        if now != known and status.get("members"):
            found.append((at, status, newest))
            # The step it starts from may be one member's alone until all have got it: what is confirmed was so before.
            start = status.get("startStep", 0)
            newest = min(newest, start) if now[0] == known[0] else start
            known = now
    return found


def trained_generations(job):
    """Without those that only save because all are told to go."""
    found = generations(job)
    for (_, status, _), (_, _, newest) in zip(found, [*found[1:], (0, {}, STEPS)]):
        if newest - status.get("startStep", 0) > 1:
            yield status["attempt"], status["generation"]


def record_errors(job, plan):
    """That a record never goes back, and a generation is one gang."""
    before = None
    training = set(trained_generations(job))
    for at, record in job.records:
        status, spec = record.get("status", {}), record["spec"]
        now = (status.get("attempt", 0), status.get("generation", 0))
        members = [(one["uid"], one["rank"]) for one in status.get("members", [])]
        if before:
            if now < before["now"]:
                yield f"the record went from attempt and generation {before['now']} back to {now}"
            if now[0] == before["now"][0] and now[1] > before["now"][1] + 1:
                yield f"generation {now[1]} of attempt {now[0]} came after {before['now'][1]}"
            if now == before["now"] and members != before["members"] and before["members"]:
                yield f"the members of generation {now} changed"
            if now[0] == before["now"][0] and status.get("term", 0) < before["term"]:
                yield f"the term fell to {status.get('term', 0)}"
            is_new = members and now != before["now"] and now in training
            # One that is to have more than it has goes on as it is meanwhile.
            least = min(spec.get("minMembers", 1), spec.get("targetMembers", 1), before["least"],
                        len(before["members"]) or plan.workers)
            if is_new and len(members) < least and not spec.get("stopping"):
                yield f"generation {now} has {len(members)} members, and needs {least}"
        before = {"now": now, "members": members, "term": status.get("term", 0),
                  "least": min(spec.get("minMembers", 1), spec.get("targetMembers", 1))}


def redone_errors(job, hits, is_sharded):
    """That nothing confirmed is made again, unless everybody who held it was hit; of a sharded run nothing stored."""
    before, stored = None, 0
    for at, status, newest in generations(job):
        start = status.get("startStep", 0)
        stored = max([stored, *(one["status"].get("checkpoint", {}).get("step", 0) for when, one in job.records
                                if when < at and "status" in one)])
        if is_sharded:  # nobody holds the whole state
            if start < stored:
                yield f"generation {status.get('generation')} begins at step {start}, and step {stored} was stored"
        elif before and start < newest:
            holders = {one["uid"] for one in before[1].get("members", [])}
            spared = holders - {uid for when, uid in hits if when >= before[0] - 15}
            if spared:
                yield (f"attempt {status.get('attempt')} generation {status.get('generation')} begins at step {start} after step "
                       f"{newest} was confirmed, and nothing had happened to {len(spared)} of {len(holders)} members")
        before = (at, status)


def count_errors(job, plan):
    """That losses which are nobody's fault are not counted, nor those that the gang outlives."""
    if not job.jobs:
        return
    status = job.jobs[-1][1].get("status", {})
    restarts = status.get("restarts", {})
    kills = sum(fault.kind in ("kill_process", "kill_launcher", "kill_all", "freeze_process") for fault in plan.faults)
    if restarts.get("counted", 0) > min(kills, status.get("attempt", 1) - 1):
        yield f"{restarts['counted']} restarts were counted in {status.get('attempt')} attempts with {kills} kills: {restarts}"


def bits_errors(job, reference):
    seen = set()
    for step, bits, log in job.losses():
        seen.add(step)
        if reference.losses.get(step) != bits:
            yield f"step {step} has loss {bits} in {log}, and {reference.losses.get(step)} undisturbed"
    if len(seen) < STEPS / 2:
        yield f"only {len(seen)} of {STEPS} steps were logged"
    if job.validations() != {reference.validation}:
        yield f"the end says {job.validations()}, undisturbed it says {reference.validation}"
    final = job.checkpoint(STEPS)
    if final is None:
        yield "there is no checkpoint of the last step"
    elif parameters(final) != reference.parameters:
        yield f"the parameters in {final.name} are not those of the undisturbed run"


def curve_errors(job, plan, reference):
    """Of a compressed run, whose ranks compare their parameters themselves: it learns from the same samples, and stores what it keeps."""
    seen = set()
    most = 1.2 if plan.compression in ("bf16", "int8") else 1.7  # the others lose much with AdamW
    for step, loss, log in job.losses(PLAIN_LINE):
        seen.add(step)
        usual = float.fromhex(reference.losses[step])
        if not 0.8 < float(loss) / usual < most:
            yield f"step {step} has loss {loss} in {log}, and {usual:.4f} without compression"
    if len(seen) < STEPS / 2:
        yield f"only {len(seen)} of {STEPS} steps were logged"
    if len(job.validations()) != 1:
        yield f"the end says {job.validations()}"
    final = job.checkpoint(STEPS)
    if final is None:
        yield "there is no checkpoint of the last step"
        return
    wanted = set(reference.parameters) | {KEPT + name for name in reference.parameters if not name.startswith("adamw.")}
    if set(parameters(final)) != wanted:
        yield f"the checkpoint {final.name} has not the tensors that it should have"


def errors(job, plan, reference, hits):
    found = []
    # That it is Complete its exit code says: the process may end before it has sent the last event.
    if not job.status().get("finished") or not job.jobs:
        found.append(f"what was watched of it ends with {job.status().get('finished')}, {job.watch_errors}")
    found += [*record_errors(job, plan), *redone_errors(job, hits, plan.is_sharded), *count_errors(job, plan),
              *(curve_errors(job, plan, reference) if plan.compression else bits_errors(job, reference))]
    if job.processes():
        found.append(f"{len(job.processes())} processes are left")
    return found

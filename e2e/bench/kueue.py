"""./dev bench kueue: TrainingJobs under Kueue 0.19.0 with its plain-pod integration: admitted, preempted, resumed.

Not a race: it prints what happens and when, and fails if a job does not come to its end, if waiting or preemption costs a
restart, or if anything of Kueue's is left behind. Needs root (Kueue reads certificates from /etc/kueue).
"""

from control import kueue


def measure(_is_smoke):
    return kueue.run()

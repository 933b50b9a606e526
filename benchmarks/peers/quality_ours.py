"""`bert-tf pretrain` on the data of `time_to_quality`, reporting every step."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.peers.session import Session, limit_threads
from bert_tf.cli import main as bert_tf
from bert_tf.training import fit
from bert_tf.training.loop.callback import TrainingCallback


def listen(session: Session) -> None:
    """Makes the run of this process report its steps, and its held-out perplexity between rounds."""

    class Reporting(TrainingCallback):
        """Reports every step after the events of the run."""

        def on_train_begin(self, logs=None):
            super().on_train_begin(logs)
            session.tell(parameters=sum(variable.shape.num_elements() for variable in self.model.trainable_weights))

        def on_train_batch_end(self, batch, logs=None):
            if self.step + 1 == self._intervals.total:
                # The end of the run is not timed. The last round ends here, and with it this process.
                session.after_step(lambda: self._perplexity(self.step))
            super().on_train_batch_end(batch, logs)
            session.after_step(lambda: self._perplexity(self.step - 1))

        def _perplexity(self, batch):
            return self._events.evaluate(batch).figures["mlm_perplexity"]

    fit.TrainingCallback = Reporting  # type: ignore[misc]


def main() -> None:
    """Trains until the last round."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--threads", type=int, default=1)
    args, command = parser.parse_known_args()
    limit_threads(args.threads)
    Path(command[command.index("--output") + 1]).parent.mkdir(parents=True, exist_ok=True)
    listen(Session())
    bert_tf(["pretrain", *command])


if __name__ == "__main__":
    main()

"""Rankers that serve the simulated shop: a closed loop from ranking over clicks and behaviours to the next ranking.

On each day the shop asks a ranker for the click probabilities of the candidates of each visit (`rankers`), fills the slots by auction
(`simulation.auction`), draws clicks from the true probabilities (`simulation.truth`) and logs what was shown (`log`). Clicks are behaviours
from then on: they change what the user clicks later, and what rankers see and models learn. `day` simulates a day, `world` a sequence of
days in which rankers may be retrained after each day (`nightly`), and `results` compares arms with each other and with the truth.

Order within a day: the visits of a user are in the order of their times. They are simulated in rounds: first the first visits of all users on
the day, then the second ones, and so on. Each round is one batch. So every visit sees all behaviours and clicks of the user before it, and
none after it, although a day takes a few batches. A ranker is fixed during the day; models are retrained at midnight.
"""

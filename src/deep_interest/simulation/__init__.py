"""A simulated industrial log: users, goods, behaviours and impressions with known click probabilities.

How a log comes about, in the order of the modules:

1. ``world``: goods lie in categories, categories form themes. A theme is an ordered path of categories ("camera,
   lens, tripod, bag"); its goods come in styles, which no column shows, and are sold by shops of few categories.
2. ``users``: profiles and activity. Age and gender lean towards themes.
3. ``interests``: each user follows several themes at once. An interest walks along its path, a stage lasting days;
   it ends at the end of the path or before, and another theme takes its place: this is the drift.
4. ``behaviors``: sessions over all days; most behaviours of a session stay with one interest and its present stage.
5. ``impressions``: sessions over the last days; candidates of present, coming and past stages, popular and random ones.
6. ``relevance`` and ``clicks``: a click depends on the user's behaviours that are near the candidate, recent ones
   more. With ``w`` the weights of `config.ClickConfig`, over the behaviours j strictly before the impression at t ::

       K(j, a)   = w_theme    [same theme]
                 + w_next     [a's category is the stage after j's category]
                 + w_category [same category]
                 + w_style    [same category and same style]
                 + w_shop     [same shop]
       f         = Σ_j K(j, a) · 2^(-(t - time_j) / half_life)
       logit(p)  = bias + relevance_strength · f / (f + half_saturation)
                 + quality_a + profile_(u, theme of a) + pid effect + hour effect
                 [+ price_strength · fit of a's price level to u's shopping level]

   ``bias`` is set so that the mean p of a pilot population is ``target_ctr``. K is not symmetric and old behaviours
   fade, so order counts: pooling a history loses which behaviours matter, and when they happened.

Seed contract: users are made in blocks of ``block_users``. Block b draws from ``default_rng([seed, stream, b])``
(`randomness.STREAMS`), so each block can be made alone, in any order and on any machine, and memory is that of one
block. ``block_users`` is part of the contract: another block size gives another, equally distributed, log. So does a
numpy version that changes its generators' streams.
"""

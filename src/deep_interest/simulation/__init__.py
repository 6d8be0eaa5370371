"""Simulate an industrial log: users, items, behaviours and impressions with known click probabilities.

How the log is generated, in the order of the modules:

1. ``world``: items belong to categories, categories form themes. A theme is an ordered path of categories ("camera,
   lens, tripod, bag"). Items have a hidden style, and are sold by shops with few categories.
2. ``users``: profiles and activity. Age and gender correlate with themes.
3. ``interests``: each user follows several themes at the same time. An interest moves along the theme's path, staying
   several days in each stage; it ends at the end of the path or earlier, and an interest in another theme starts. This
   is interest drift.
4. ``behaviors``: sessions over all days; most behaviours of a session follow one interest and its current stage.
5. ``impressions``: sessions over the last days; candidates come from current, next and past stages, from popular items
   and from random items.
6. ``relevance`` and ``clicks``: a click depends on the user's behaviours that match the candidate, and more on recent
   ones. With ``w`` the weights of `config.ClickConfig`, over the behaviours j strictly before the impression at t ::

       K(j, a)   = w_theme    [same theme]
                 + w_next     [a's category is the stage after j's category]
                 + w_category [same category]
                 + w_style    [same category and same style]
                 + w_shop     [same shop]
       f         = Σ_j K(j, a) · 2^(-(t - time_j) / half_life)
       logit(p)  = bias + relevance_strength · f / (f + half_saturation)
                 + quality_a + profile_(u, theme of a) + pid effect + hour effect
                 [+ price_strength · match of a's price level with u's shopping level]
                 [+ lasting_strength · n / (n + lasting_half_saturation)]

   ``n`` counts the behaviours in the candidate's category, of any age: with ``lasting_strength``, interests that ended long
   ago matter as well, and a model has to look far back.
   ``bias`` is set so that the mean p of a pilot population is ``target_ctr``. K is not symmetric and old behaviours
   decay, so order matters: pooling a history loses which behaviours matter and when they happened.

7. ``delays`` (only with ``click_delays``): a click happens an exponential time after its impression. ``label`` is the final one; a
   reader at time t knows the clicks whose ``click_time`` is before t.

Seeds: users are generated in blocks of ``block_users``. Block b draws from ``default_rng([seed, stream, b])``
(`randomness.STREAMS`), so each block can be generated alone, in any order and on any machine, in the memory of one
block. Changing ``block_users`` gives a different log with the same distribution, and so does a numpy version that
changes the streams of its generators.
"""

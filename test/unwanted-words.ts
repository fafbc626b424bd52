/**
 * Words that this project does not use, with those that it uses instead: the field's, or plain English. Names of code, its
 * comments and texts, and the pages for operators and developers hold to it; tests are named as they like.
 */
export const words: [unwanted: RegExp, instead: string][] = [
  // what users and operators read
  [/\b(?:takes?|took|taken|taking) back\b/i, 'revoke access; retract, revert, rewind; reorganised'],
  [/\bour fault\b/i, 'internal server error'],
  [/'Too late'|There is nothing here|There is one already/, 'can no longer be …; not found; already exists'],
  [/\bgo(?:es|ing)? on\b|\bwent on\b/i, 'resume, continue, recover'],
  [/\bc[oa]mes? to nothing\b/i, 'abandoned'],
  [/\b(?:gives?|gave|given|giving) up\b/i, 'abandon, mark as failed'],
  [/\bThe signer knows transactions\b/, 'the database is behind the signer’s ledger'],
  [/\bkey of keys\b/i, 'master key (KEK)'],
  [/\bthaw/i, 'unfreeze'],
  [/\bwhat a node says wrongly\b/i, 'invalid node response'],
  [/\bcoins\b/i, 'native currency, funds, balance'],
  [/\b(?:native|network's|network’s|user's) coin\b/i, 'native currency'],
  // log events that were sentences
  [/'follower (?:leads|waits|goes|was)|lease not given back/, 'lease_acquired, lease_lost, …'],
  // what nodes are refused for
  [/'no number\b|\b(?:status|length|signature|node of the proof) (?:that )?is none\b/, 'is not a quantity; invalid …'],
  [/\bcomes in crumbs\b/, 'too many tiny chunks'],
  [/\bnames less gas\b/, 'gas estimate below 21,000'],
  [/\bfinal no more\b/, 'a finalized block was reorganised'],
  [/\bit is no object\b/, 'expected an object'],
  [/\bin the air\b/i, 'in flight'],
  [/\bout ?of ?breath\b/i, 'rate-limited'],
  [/\bhow-?manieth\b/i, '1-based position'],
  // the register: grammatical, and from another century or another language
  [/\bfor ever\b/i, 'forever, permanently'],
  [/\b(?:some|any|every)body\b/i, 'someone, anyone, everyone'],
  [/\bwhoever\b/i, 'anyone who, or the one it is'],
  [/\bstands? (?:in(?! for)|at|there|on|beside|behind|before|still|twice)\b/i, 'is in, is at, is stuck, …'],
  [/\bcannot be told\b|\btold apart\b/i, 'is unknown; distinguished'],
  [/\boperator (?:is|was) told\b/i, 'notified'],
  // names
  [/\bBadAnswer\b/, 'InvalidResponse'],
  [/\b(?:movements?|holdings)\b/i, 'transfers; balances'],
  [/\b(?:forgetGrant|mayDoBetter|unhear|unmine|takeIn|takeInSlot|wayBack|attend)\b/, 'see docs/glossary.md and git'],
  [/\b(?:FOLLOW_STRICT)\b/, 'BLOCK_VERIFICATION'],
  [/^(?:export )?(?:type|interface|class) (?:Place|Given|Held|Seen|Known|Told|Said|Asked|Taken|Owned|Wanted|Found|Row)\b/m, 'what the thing is, not how it was got'], // prettier-ignore
]

/**
 * Patterns of sentences that are read twice (the rules for texts, by number), and words that have a better one in the terms table.
 * Texts of errors hold to them, and the documents that are named in `words.test.ts`.
 */
export const patterns: [unwanted: RegExp, instead: string][] = [
  [/\bwhat\b/i, '1: name the thing'],
  [/(?:^|[.;:,] )(?:who|whoever|those who|one who|anyone who)\b/i, '2: name the actor'],
  [/\b(?:has|have|had|having) (?:the|its|their|it|them|someone) (?:\w+ ){1,3}?(?:signed|sent|made|done|put|set|paid|\w+ed)\b(?! and\b|,)/i, '3: no causative have'], // prettier-ignore
  [/(?:^|[,;:] )where (?!\S+ (?:is|are) )/i, '4: if for a condition'],
  [
    /\b(?:nothing|none) of (?:it|this|that|the|its|what|them)\b|\bno \w+ (?:is|was) \w+ any ?more\b/i,
    '8: negate the verb',
  ],
  [/^(?:of|for|to|by|with|from) (?:it|them|both|this|all|those|which)\b/i, '10: a complete sentence'],
  [
    /, too(?=[.,;:]|$)|\beither\.|\bany ?more\b|\banew\b|\bmeanwhile\b|\bby now\b|\bfrom before\b|\bof then\b/i,
    '9, 11: outcome first; no memory',
  ],
  [/\b(?:person|persons|people|someone’s)\b|^whose\b/i, 'user, account'],
  [/\b(?:tells?|told|said|says?)\b/i, 'return, respond, report, name'],
  [/\b(?:away|gone)\b/i, 'unavailable, down'],
  [/\b(?:keeps?|kept|stays?)\b/i, 'store, retain, remain'],
  [/\b(?:carry|carries|carried|packs?|packed)\b/i, 'include, batch'],
  [/\brefus(?:e|es|ed|al)\b(?! to )/i, 'reject'],
  [
    /\bdearer\b|\brais(?:e|es|ed|ing) (?:its|the|their) fees?\b|\bfees? (?:\w+ ){0,3}raised\b/i,
    'fee bump, replacement',
  ],
  [/\blanes?\b/i, 'account queue, nonce sequence'],
  [/\bvacant\b|\bis filled\b/i, 'gap-filling transaction'],
  [/\bpasts\b|\ba past\b(?! transfer)|\blooked? (?:at|up)\b/i, 'past transfers, backfill; index'],
  [/\bapart\b/i, 'separate'],
  [/\b(?:drills?|walks?)\b/i, 'restore test'],
  [/\b(?:believed?|believes|proven)\b/i, 'trusted, verified, attested'],
  [/\b(?:takes? in|took in|recalled?)\b/i, 'reconcile from the ledger'],
  [/\b(?:mends?|mended)\b/i, 'fix'],
  [/\broom\b/i, 'hold, cap, limit, space'],
  [/\bonce more\b/i, 'retry, again'],
  [/\bstand-ins?\b/i, 'mock, fake'],
  [/\b(?:in|inside) your own\b/i, 'private network'],
  [/\bunder way\b/i, 'in progress'],
]

/** Where a word above is right, and why. */
const allowed: [file: RegExp, word: RegExp, why: string][] = [
  [/^en\.(?:leaving|account)\./, /^stay$/i, '“stay signed in” is the usual text of pages'],
  [/^en\.(?:development|exporting)\./, /who$/i, 'a question; and “Anyone who has the key”, which is a warning'],
  [/^src\/(?:texts|oauth\/account)\//, /coins/i, 'pages for people: the key of a text, and of a filter in an address'],
  [/^src\/texts\/(?!en\.ts)/, /./, 'another language'],
  [/^src\/devnet\/explorer-pages\.ts$/, /coins/, 'a function that writes an amount with its symbol'],
  [/^src\/signer\/request\.ts/, /^person$/, 'a value on the wire'],
  [/^docs\/decisions\//, /^Keep$/, 'the title of a decision'],
  [/^docs\/evidence\/proof\.md$/, /^refused$/, 'a fault of a connection'],
  [/^docs\/evidence\/proof-mutants\.md$/, /coins/i, 'the name of a scenario'],
  [/^docs\/(?:build|operate)\/.*\.md$|^README\.md$/, /my ?coin/i, 'the name of a currency'],
]

/** Places of unwanted words in a text: `file:line: word → instead`. */
export function unwantedIn(file: string, text: string): string[] {
  return find(words, file, text)
}

/** Places in a text of sentences that are read twice, in the same form. */
export const readTwiceIn = (file: string, text: string): string[] => find(patterns, file, text)

const find = (table: [unwanted: RegExp, instead: string][], file: string, text: string): string[] =>
  table.flatMap(([unwanted, instead]) =>
    [...text.matchAll(new RegExp(unwanted, `${unwanted.flags}g`))]
      .filter(([word]) => !allowed.some(([where, what]) => where.test(file) && what.test(word)))
      .map(({ 0: word, index }) => `${file}:${text.slice(0, index).split('\n').length}: ${word} → ${instead}`),
  )

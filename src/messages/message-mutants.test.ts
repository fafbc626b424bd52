// tier: all, because each planted mistake runs a test file in a process of its own
import { mutantsOf, ONE_OF, type SourceMutant } from '../../test/source-mutants.ts'

/** What an attacker would like this code to be: each in one place, and the test file that has to notice. */
const MUTANTS: SourceMutant[] = [
  ['a field that is not signed is shown', 'struct-values.ts', 'if (!members.some((member) => member.name === name))', 'if (members.length < 0)', 'typed-data'], // prettier-ignore
  ['a field beside the message is shown', 'typed-data.ts', 'if (!FIELDS.includes(name)) throw', 'if (FIELDS.length < 0) throw', 'typed-data'], // prettier-ignore
  ['the second of two names counts', '../unique-json.ts', 'if (known!.has(name)) return', 'if (known!.size < 0) return', 'typed-data'], // prettier-ignore
  ['a type that nothing uses is declared', 'struct-types.ts', 'if (!needed.includes(name))', 'if (needed.length < 0)', 'typed-data'], // prettier-ignore
  ['a struct has a name that others read as a number', 'struct-types.ts', '|^(?:u?int|bytes)|', '|^(?:u?int|bytes)\\d*$|', 'typed-data'], // prettier-ignore
  ['names that objects inherit are names', 'struct-types.ts', '!INHERITED.has(text)', 'text.length > 0', 'typed-data'],
  ['a number beyond 2^53 is rounded', 'struct-values.ts', '!Number.isSafeInteger(value)', '!Number.isInteger(value)', 'typed-data'], // prettier-ignore
  ['an integer wraps around', 'struct-values.ts', 'number < min || number >= end', 'number < min', 'typed-data'],
  ['a wrong checksum is an address', 'address.ts', 'isAddress(value) && !hasWrongChecksum(value)', 'isAddress(value)', 'typed-data'], // prettier-ignore
  ['a list has any length', 'struct-values.ts', 'value.length !== type.length', 'value.length < 0', 'typed-data'],
  ['bytes have any length', 'struct-values.ts', 'bytes?.length === type.length ? bytes', 'bytes !== null ? bytes', 'typed-data'], // prettier-ignore
  ['a domain has fields in any order', 'typed-data.ts', '(index > 0 && place <= places[index - 1]!)', 'index < 0', 'typed-data'], // prettier-ignore
  ['a type may contain itself', 'struct-types.ts', 'if (open.has(name)) throw', 'if (open.has(name)) return 0\n    if (open.size < 0) throw', 'typed-data'], // prettier-ignore
  ['a message is for every network', 'classify.ts', 'chainId !== null && chainId !== facts.chainId', 'chainId === -1', 'classify'], // prettier-ignore
  ['what moves money names no network', 'classify.ts', 'chainId === null && isMoving &&', 'chainId === null && !isMoving &&', 'classify'], // prettier-ignore
  ['a salt is any network', 'classify.ts', '=== BigInt(chainId)', '> 0n', 'classify'],
  ['somebody else’s permit is signed', 'classify.ts', '!address.equals(facts.address)', 'address.length === 0', 'classify'], // prettier-ignore
  ['an operation of the account is a message', 'classify.ts', 'domain.verifyingContract?.equals(address) === true || ', '', 'classify'], // prettier-ignore
  ['the operation of another name is a message', 'classify.ts', ' || encodedType === OPERATION', '', 'classify'],
  ['the nested form of a permit is a message', 'classify.ts', `primaryType === 'TypedDataSign'`, `primaryType === ''`, 'classify'], // prettier-ignore
  ['an unlimited allowance needs nobody', 'unlimited.ts', 'amount >= MIN_UNLIMITED || amount === UNLIMITED_96', 'amount > 2n ** 256n', 'classify'], // prettier-ignore
  ['an allowance of years needs nobody', 'classify.ts', 'end === null || end > last', 'end === null', 'classify'],
  ['an allowance without an end needs nobody', 'classify.ts', 'end === null || end > last', 'end !== null && end > last', 'classify'], // prettier-ignore
  ['any contract is Permit2', 'classes.ts', 'contract?.equals(PERMIT2) !== true', 'contract === null', 'classify'],
  ['any spender pays the recipient of the witness', 'classes.ts', '!bytes(message, \'spender\').equals(X402_EXACT)', 'message.size === 0', 'classify'], // prettier-ignore
  ['Snapshot is any domain', 'classes.ts', `domain.name === 'snapshot'`, 'domain.members.length > 0', 'classify'],
  ['the fee of an order stays', 'classes.ts', `number(message, 'sellAmount') + number(message, 'feeAmount')`, `number(message, 'sellAmount')`, 'classify'], // prettier-ignore
  ['an auction offers what it starts with', 'classes.ts', 'start > end ? start : end', 'start', 'classify'],
  ['one order of a tree gives to the account, and so do all', 'classify.ts', 'buyers.some((ofOrder) =>', 'buyers.length > 0 && buyers.every((ofOrder) =>', 'classify'], // prettier-ignore
  ['a login of any domain', 'login.ts', '!known.includes(login.domain.toLowerCase()) || ', '', 'login'],
  ['a login for any page', 'login.ts', '!known.includes(uri.host)', 'uri.host.length === 0', 'login'],
  ['a login for a page below', 'login.ts', '!known.includes(uri.host)', '!known.some((host) => uri.host.endsWith(host))', 'login'], // prettier-ignore
  ['a login for a page that is not encrypted', 'login.ts', ' && LOOPBACK.has(hostname)', '', 'login'],
  [
    'a login judged by its first line alone',
    'login.ts',
    '...(URL.canParse(uri) ? [new URL(uri).host] : [])',
    '',
    'login',
  ],
  ['a login of yesterday', 'login.ts', 'Math.abs(at - issued) <= MAX_AGE_MS', 'at - issued <= 86_400_000', 'login'],
  ['a login that is over', 'login.ts', '!(Date.parse(login.expiresAt) > at)', 'false', 'login'],
  ['a login that was never issued', 'login.ts', '!(Math.abs(at - issued) <= MAX_AGE_MS)', 'Math.abs(at - issued) > MAX_AGE_MS', 'login'], // prettier-ignore
  ['a login of another account', 'login.ts', 'login.address !== checksummed(facts.address)', 'login.address.length === 0', 'login'], // prettier-ignore
  ['a broken login is a text', 'classify.ts', 'if (!looksLikeLogin(text))', 'if (readLogin(text) === null)', 'login'],
  ['hidden characters hide a login', 'login.ts', `.replaceAll(/\\p{Cf}/gu, '')`, '', 'login'],
  ['a resource is granted unseen', 'classify.ts', 'login.resources.length === 0 ? found', 'login.resources.length >= 0 ? found', 'login'], // prettier-ignore
  ['a digest is a text', 'message.ts', ' || isDigestText(text)', '', 'text'],
  ['32 bytes that read as text are one', 'message.ts', ' || isHash ||', ' ||', 'text'],
  ['control characters are a text', 'text.ts', '!/[^\\P{Cc}\\n\\r\\t]/u.test(text)', 'true', 'text'],
  ['broken UTF-8 is a text', 'text.ts', 'Buffer.from(text).equals(bytes) && ', '', 'text'],
]

mutantsOf('texts and typed data', MUTANTS, 'messages', ONE_OF)

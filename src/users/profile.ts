/** The profile of a user at an identity provider. Only `subject`, the provider's immutable id, identifies the user. */
export type Profile = {
  provider: string
  subject: string
  username: string | null
  imageSrc: string | null
  email: string | null
  emailVerified: boolean | null
  /** whether the provider may have omitted fields: stored values replace missing ones */
  isPartial?: boolean
}

const MAX_NAME_CHARACTERS = 255
const MAX_URL_CHARACTERS = 2_048

/**
 * Returns a profile that can be stored and shown: text without control characters, a picture only by http(s), always a
 * name.
 */
export function cleanProfile({
  provider,
  subject,
  username,
  imageSrc,
  email,
  emailVerified,
  isPartial = false,
}: Profile): Required<Profile> & { username: string } {
  const address = cleanText(email)
  return {
    provider,
    subject,
    username: cleanText(username) ?? subject,
    imageSrc: cleanUrl(imageSrc),
    email: address,
    emailVerified: address === null ? null : emailVerified,
    isPartial,
  }
}

/** Characters that are not seen, except joiners and emoji variants: Persian, Indic scripts and emoji need those. */
const INVISIBLE =
  /(?!\u200c|\u200d|\ufe0e|\ufe0f)[\p{Cc}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\p{Noncharacter_Code_Point}\ufff9-\ufffb]/gu
/** Joiners and variants where nothing shows them. */
const IDLE_JOINER = /(?<=^|[\p{Script=Latin}\p{Nd}\p{P}\p{Z}])(?:\u200c|\u200d|\ufe0e|\ufe0f)+/gu

/**
 * Returns one line of text; null if nothing remains. Removes control characters and invisible formatting characters:
 * PostgreSQL rejects NUL, and invisible characters make one name look like another.
 */
function cleanText(text: string | null): string | null {
  if (text === null) return null
  const clean = text.toWellFormed().replaceAll(INVISIBLE, '').replaceAll(IDLE_JOINER, '').trim()
  const cut = clean.slice(0, MAX_NAME_CHARACTERS)
  // If the cut splits a surrogate pair, remove the remaining half, which PostgreSQL rejects.
  const whole = cut.isWellFormed() ? cut : cut.slice(0, -1)
  return whole === '' ? null : whole
}

function cleanUrl(text: string | null): string | null {
  if (text === null || text.length > MAX_URL_CHARACTERS || !URL.canParse(text)) return null
  const { protocol, href } = new URL(text)
  return protocol === 'https:' || protocol === 'http:' ? href : null
}

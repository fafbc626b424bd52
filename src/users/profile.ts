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

/**
 * Returns one line of text; null if nothing remains. Removes control characters and invisible formatting characters:
 * PostgreSQL rejects NUL, and direction overrides make one name look like another.
 */
function cleanText(text: string | null): string | null {
  if (text === null) return null
  const clean = text
    .toWellFormed()
    .replaceAll(/[\p{Cc}\p{Zl}\p{Zp}\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/gu, '')
    .trim()
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

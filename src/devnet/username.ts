const USERNAME = /^[\p{L}\p{N}][\p{L}\p{N}._-]{0,63}$/u

/** Normalizes a name typed at the development sign-in, ignoring case. Returns null if it is not a valid name. */
export function developmentName(typed: string): string | null {
  const name = typed.trim().normalize('NFC')
  return USERNAME.test(name) ? name.toLowerCase() : null
}

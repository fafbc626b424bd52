const USERNAME = /^[\p{L}\p{N}][\p{L}\p{N}._-]{0,63}$/u

/** The person that a name typed at the development sign-in stands for; null where it can be nobody's. Case does not matter. */
export function developmentName(typed: string): string | null {
  const name = typed.trim().normalize('NFC')
  return USERNAME.test(name) ? name.toLowerCase() : null
}

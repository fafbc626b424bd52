/**
 * Finds names that closely resemble settings: an operator who writes SIGNER_MAX_FEE expects that a limit is set. Names
 * that other software sets, such as SIGNER_PORT or DATABASE_HOST, differ more.
 * @returns  one problem per name
 */
export function misspelt(env: Record<string, string | undefined>, names: string[]): string[] {
  const long = names.filter((name) => name.length >= 8)
  return Object.keys(env)
    .filter((name) => env[name] !== '' && !names.includes(name))
    .flatMap((name) => {
      const meant = long.find((key) => isNear(name.toUpperCase(), key))
      return meant === undefined ? [] : [`${name} is not a setting, but ${meant} is: correct it, or remove it`]
    })
}

/**
 * Returns whether `name` differs from `key` by one letter (added, missing or changed), two swapped letters, or a
 * missing unit.
 */
function isNear(name: string, key: string): boolean {
  if (name === key || name === key.replace(/_G?WEI$/, '')) return true
  let same = 0
  while (same < name.length && name[same] === key[same]) same++
  const [a, b] = [name.slice(same), key.slice(same)]
  const swapped = `${a[1] ?? ''}${a[0] ?? ''}${a.slice(2)}`
  return a.slice(1) === b || a === b.slice(1) || a.slice(1) === b.slice(1) || swapped === b
}

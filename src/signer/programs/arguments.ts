import { parseArgs, type ParseArgsConfig } from 'node:util'

/**
 * `parseArgs`, where an option that takes a value takes the next word for it, whatever that begins with: of fingerprints, which
 * are in base64url, one in 64 begins with a dash.
 */
export function readArguments<T extends ParseArgsConfig>(config: T): ReturnType<typeof parseArgs<T>> {
  const { args = process.argv.slice(2), options = {} } = config
  const joined: string[] = []
  for (let at = 0; at < args.length; at += 1) {
    const word = args[at]!
    if (word === '--') return parseArgs<T>({ ...config, args: [...joined, ...args.slice(at)] })
    const takesNext = word.startsWith('--') && options[word.slice(2)]?.type === 'string' && at + 1 < args.length
    joined.push(takesNext ? `${word}=${args[(at += 1)]!}` : word)
  }
  return parseArgs<T>({ ...config, args: joined })
}

import { parseArgs, type ParseArgsConfig } from 'node:util'

/**
 * Parses arguments like `parseArgs`, but an option with a value takes the next word, even if that begins with a dash. One in 64
 * base64url fingerprints does.
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

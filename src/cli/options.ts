import { InvalidArgumentError, Option, type Command } from 'commander'

/** How a command says a field: flags, what they mean, and the value they stand for, or how their text is read; without it, the text. */
type Way<T> = [flags: string, help: string, value?: T | ((text: string, before?: T) => T)]

/** The way to say each of some fields. */
export type Ways<Fields> = { [F in keyof Fields]: Way<Fields[F]> }

/** Options of a command, in their order. */
export function addWays<Fields>(command: Command, ways: Ways<Fields>): Command {
  for (const [flags, help, value] of Object.values<Way<unknown>>(ways)) {
    const option = new Option(flags, help)
    // In a list of one: Commander takes a null for a text that is missing.
    if (typeof value === 'function') option.argParser<[unknown]>((text, before) => [value(text, before?.[0])])
    command.addOption(option)
  }
  return command
}

/** What is said of these fields, and nothing else. */
export const said = <Fields>(ways: Ways<Fields>, given: object): Partial<Fields> =>
  Object.fromEntries(
    Object.entries<Way<unknown>>(ways).flatMap(([field, [flags, , value]]) => {
      const option = new Option(flags)
      const word = (given as Record<string, unknown>)[option.attributeName()]
      const isSaid = option.negate ? word === false : word !== undefined && word !== false
      if (!isSaid) return []
      if (typeof value === 'function') return [[field, (word as [unknown])[0]]]
      return [[field, value === undefined ? word : value]]
    }),
  ) as Partial<Fields>

/** Reads an option that may be repeated. */
export const collect = (text: string, before: string[] = []): string[] => [...before, text]

/** A block number of an option. @throws InvalidArgumentError */
export function readBlock(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError('A block number in decimal digits.')
  return Number(text)
}

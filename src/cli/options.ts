import { InvalidArgumentError, Option, type Command } from 'commander'

/** The option of a field: flags, help, and its value, or a function that reads its text; without either, the text. */
type Way<T> = [flags: string, help: string, value?: T | ((text: string, before?: T) => T)]

export type Ways<Fields> = { [F in keyof Fields]: Way<Fields[F]> }

/** Adds options to a command, in order. */
export function addWays<Fields>(command: Command, ways: Ways<Fields>): Command {
  for (const [flags, help, value] of Object.values<Way<unknown>>(ways)) {
    const option = new Option(flags, help)
    // Wrapped in a list, because Commander takes a null for a missing text.
    if (typeof value === 'function') option.argParser<[unknown]>((text, before) => [value(text, before?.[0])])
    command.addOption(option)
  }
  return command
}

/** Returns the fields whose options were given, and no others. */
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

/** Reads a repeatable option. */
export const collect = (text: string, before: string[] = []): string[] => [...before, text]

/** Parses a block number. @throws InvalidArgumentError */
export function readBlock(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError('Expected a block number in decimal digits.')
  return Number(text)
}

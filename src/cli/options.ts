import { Option, type Command } from 'commander'

/** How a command says a field: flags, what they mean, and the value they stand for, or how their text is read; without it, the text. */
export type Way<T> = [flags: string, help: string, value?: T | ((text: string, before: T | false | undefined) => T)]

/** The ways to say each of some fields. */
export type Ways<Fields> = { [F in keyof Fields]-?: Way<Fields[F]>[] }

/** Options of a command, in their order. */
export function addWays(command: Command, ways: [flags: string, help: string, value?: unknown][]): Command {
  for (const [flags, help, value] of ways) {
    const option = new Option(flags, help)
    command.addOption(typeof value === 'function' ? option.argParser(value as never) : option)
  }
  return command
}

/** What is said of these fields, and nothing else. Of several ways the first that is used counts. */
export function said<Fields>(ways: Ways<Fields>, given: object): Partial<Fields> {
  const fields = Object.entries<Way<unknown>[]>(ways as never)
  return Object.fromEntries(
    fields.flatMap(([field, some]) => {
      const value = some.map((way) => valueOf(way, given)).find((one) => one !== undefined)
      return value === undefined ? [] : [[field, value]]
    }),
  ) as Partial<Fields>
}

function valueOf([flags, , value]: Way<unknown>, given: object): unknown {
  const option = new Option(flags)
  const word = (given as Record<string, unknown>)[option.attributeName()]
  const isSaid = option.negate ? word === false : word !== undefined && word !== false
  if (!isSaid) return undefined
  return value === undefined || typeof value === 'function' ? word : value
}

/** Reads an option that may be repeated. */
export const collect = (text: string, before: string[] | false | undefined): string[] => [...(before || []), text]

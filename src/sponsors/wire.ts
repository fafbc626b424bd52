import Type, { type Static } from 'typebox'
import { Nullable } from '../http/wire.ts'

const sponsor = {
  name: Type.String({ description: 'Its user id in the signer is `SPONSOR-` and this' }),
  chainId: Type.Integer(),
  address: Type.String({ description: 'What it is funded at; one name has one address on all networks' }),
}
const HOUSE = {
  name: 'HOUSE',
  network: 'sepolia',
  chainId: 11_155_111,
  address: '0x52908400098527886E0F7030069857D2E4169EE7',
}

/** A sponsor to create. */
export const NewSponsor = Type.Object(
  {
    name: Type.String({ maxLength: 200, description: 'Upper-case letters, digits and underscores, at most 32' }),
    network: Type.String({ maxLength: 200, description: 'Name of a network of this installation' }),
  },
  { title: 'NewSponsor', additionalProperties: false, examples: [{ name: 'HOUSE', network: 'sepolia' }] },
)
export type NewSponsor = Static<typeof NewSponsor>

/** A sponsor that was created, or existed. */
export const MadeSponsor = Type.Object(
  { ...sponsor, network: Type.String() },
  { title: 'MadeSponsor', examples: [HOUSE] },
)
export type MadeSponsor = Static<typeof MadeSponsor>

/** A sponsor as the operator API returns it. */
export const ListedSponsor = Type.Object(
  {
    ...sponsor,
    network: Nullable(Type.String({ description: 'null: the network was removed' })),
    balance: Nullable(Type.String({ description: 'Wei it holds there now; null: no node of the network said' })),
    openTransactions: Type.Integer({ description: 'Of its own, that are not in a block yet' }),
    lowBelow: Nullable(Type.String({ description: 'Wei below which its balance counts as low; null: as the balance' })),
    lowSince: Nullable(
      Type.String({ format: 'date-time', description: 'Since when servers see it low; null: they do not' }),
    ),
    stoppedSince: Nullable(
      Type.String({
        format: 'date-time',
        description:
          'Since when it sends nothing, because a transaction that this service did not make used a nonce of it; null: it sends',
      }),
    ),
  },
  {
    title: 'Sponsor',
    examples: [
      {
        ...HOUSE,
        balance: '1000000000000000000',
        openTransactions: 2,
        lowBelow: '30000000000000000',
        lowSince: null,
        stoppedSince: null,
      },
    ],
  },
)
export type ListedSponsor = Static<typeof ListedSponsor>

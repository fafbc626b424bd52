import Type, { type Static } from 'typebox'
import { Nullable } from '../http/wire.ts'

const sponsor = {
  name: Type.String({
    description: 'Name of the sponsor. Its user id in the signer is `SPONSOR-` followed by the name',
  }),
  chainId: Type.Integer(),
  address: Type.String({ description: 'Address to fund. One name has the same address on all networks' }),
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
    network: Nullable(Type.String({ description: 'null if the network was removed' })),
    balance: Nullable(Type.String({ description: 'Current balance in wei; null if no node of the network responded' })),
    openTransactions: Type.Integer({ description: 'Number of its transactions that are not in a block yet' }),
    lowBelow: Nullable(Type.String({ description: 'Balance in wei below which the sponsor is low; null if unknown' })),
    lowSince: Nullable(
      Type.String({
        format: 'date-time',
        description: 'Time at which the balance fell below `lowBelow`; null if it is above',
      }),
    ),
    stoppedSince: Nullable(
      Type.String({
        format: 'date-time',
        description:
          'Time since when the sponsor is stopped, because a foreign transaction used one of its nonces; null if it is not stopped',
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

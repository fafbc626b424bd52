import Type, { type Static } from 'typebox'

/** What signing out a user everywhere has ended, as an operator sees it. */
export const SignedOut = Type.Object(
  {
    userId: Type.String(),
    browsers: Type.Integer({ description: 'How many browsers were signed in' }),
    applications: Type.Integer({ description: 'How many sign-ins of applications worked' }),
  },
  { title: 'SignedOut', examples: [{ userId: 'GITHUB-583231', browsers: 1, applications: 2 }] },
)
export type SignedOut = Static<typeof SignedOut>

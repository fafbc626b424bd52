import type { Rich } from './rich.ts'

/** Texts of the pages on which a user approves or denies a request. */
type ApprovalsTexts = {
  title: string
  /** what happens, in one sentence; `what`: an amount in words, `who` and `to`: a name or an address */
  sentences: {
    login: (domain: string) => Rich
    text: Rich
    pay: (what: string, to: string) => Rich
    /** of a collectible */
    give: (what: string, to: string) => Rich
    /** `until`: null for a permission that does not end by itself */
    allow: (who: string, what: string, until: string | null) => Rich
    revoke: (who: string, token: string) => Rich
    /** of a payment that was signed and not yet made */
    cancel: Rich
    order: (what: string) => Rich
    orderOfNothing: Rich
    vote: Rich
    power: Rich
    other: Rich
    opaque: Rich
    call: (contract: string) => Rich
    several: (count: number) => Rich
  }
  /** a list of amounts that are all limits */
  upTo: (what: string) => string
  /** heading of one of several calls */
  step: (number: number, count: number) => string
  /** amounts in words; `token`: its symbol, or one of the texts below */
  unlimited: (token: string) => string
  all: (token: string) => string
  piece: (token: string, id: string) => string
  /** an amount of a token whose symbol is the token’s own word */
  claimed: (amount: string, symbol: string) => string
  claims: (symbol: string) => string
  nameless: (address: string) => string
  /** a user, whose name is their own word */
  named: (name: string, address: string) => string
  /** native currency of a network that does not respond */
  coin: string
  /** an amount of a token whose decimals are not known */
  smallest: (amount: string, token: string) => string
  askedBy: string
  askedAt: string
  askedFrom: string
  account: string
  network: string
  leaves: string
  mayTake: string
  mayNoLongerTake: string
  returns: string
  returnsUnknown: string
  recipient: string
  spender: string
  contract: string
  tokenContract: string
  until: string
  forever: string
  neverUsed: string
  /** heading of what calls would change, by a simulation */
  expected: string
  expectedNothing: string
  /** further changes that are not listed */
  expectedMore: (count: number) => string
  expectedHint: string
  wouldFail: string
  notSimulated: string
  unknownApplication: string
  callOf: (selector: string) => string
  /** heading of the text that is signed, and what a signature of it does */
  textIs: string
  textHint: string
  /** what a signed order does */
  orderHint: string
  raw: string
  rawHint: string
  warnings: {
    unlimited: string
    unknown: string
    power: string
    long: string
    'no-chain': string
    'other-domain': string
    recipient: string
    call: string
  }
  approve: string
  deny: string
  final: string
  signInFirst: string
  expiresAt: string
  approvedTitle: string
  approvedHint: (application: string) => string
  usedTitle: string
  usedHint: string
  deniedTitle: string
  deniedHint: string
  expiredTitle: string
  expiredHint: string
  changedTitle: string
  changedHint: string
  lookAgain: string
  otherTitle: string
  otherHint: string
  otherSignIn: string
  missingTitle: string
  missingHint: string
  unreadable: string
  inbox: string
  inboxHint: string
  waiting: string
  nothingWaits: string
  decided: string
  minutesLeft: (minutes: number) => string
  states: { approved: string; used: string; denied: string; expired: string }
  /** link on the account page */
  link: (count: number) => string
  look: string
}

export const approvals: Record<'en' | 'de' | 'fr' | 'es' | 'ja', ApprovalsTexts> = {
  en: {
    title: 'Do you approve this?',
    sentences: {
      login: (domain) => ['Sign in to ', { strong: domain }],
      text: ['Sign this text'],
      pay: (what, to) => ['Pay ', { strong: what }, ' to ', { strong: to }],
      give: (what, to) => ['Give ', { strong: what }, ' to ', { strong: to }],
      allow: (who, what, until) => [
        'Allow ',
        { strong: who },
        ' to take ',
        { strong: what },
        ' from your account',
        ...(until === null ? [', with no end date'] : [' until ', { strong: until }]),
      ],
      revoke: (who, token) => [
        'No longer allow ',
        { strong: who },
        ' to take ',
        { strong: token },
        ' from your account',
      ],
      cancel: ['Cancel a payment that you signed earlier'],
      order: (what) => ['Offer ', { strong: what }, ' in a trade'],
      orderOfNothing: ['Sign an offer for a trade'],
      vote: ['Vote, or let someone vote for you'],
      power: [{ strong: 'Let others act for your account' }],
      other: ['Sign data that this service does not understand'],
      opaque: ['Sign data that nobody can read'],
      call: (contract) => ['Run a program on the network: the contract ', { strong: contract }],
      several: (count) => ['Do these ', { strong: `${count} things` }, ' together'],
    },
    upTo: (what) => `up to ${what}`,
    step: (number, count) => `Step ${number} of ${count}`,
    unlimited: (token) => `an unlimited amount of ${token}`,
    all: (token) => `everything you own of ${token}`,
    piece: (token, id) => `${token} #${id}`,
    claimed: (amount, symbol) => `${amount} of a token that calls itself “${symbol}”`,
    claims: (symbol) => `a token that calls itself “${symbol}”`,
    nameless: (address) => `the token ${address}`,
    named: (name, address) => `“${name}” (${address})`,
    coin: 'the network’s currency',
    smallest: (amount, token) => `${amount} smallest units of ${token}`,
    askedBy: 'Requested by',
    askedAt: 'When',
    askedFrom: 'from the internet address',
    account: 'Your account',
    network: 'Network',
    leaves: 'Leaves your account',
    mayTake: 'May be taken from your account',
    mayNoLongerTake: 'May no longer be taken',
    returns: 'Arrives in your account',
    returnsUnknown:
      'This service does not know how much, or whether anything goes to other addresses. Check it in the application.',
    recipient: 'Recipient',
    spender: 'Can be taken by',
    contract: 'Contract',
    tokenContract: 'Token contract',
    until: 'Until',
    forever: 'No end date',
    neverUsed: 'an address that you have never used',
    expected: 'Expected change of your account',
    expectedNothing: 'The simulation shows no change of your balances, except for network fees.',
    expectedMore: (count) => `and ${count} more`,
    expectedHint: 'This is an estimate. The real result can differ, and permissions to take tokens are not part of it.',
    wouldFail:
      'A test on the newest state of the network failed. If you approve this, it will probably have no effect.',
    notSimulated:
      'The effect could not be calculated. This page may not show everything that leaves or reaches your account.',
    unknownApplication: 'An unknown application',
    callOf: (selector) => `Function ${selector}, which this service does not know`,
    textIs: 'The text',
    textHint:
      'Your signature shows that your account agreed to this text. Some sites take that as a sign-in or an order: approve only a text that you understand.',
    orderHint: 'Your signature makes this a binding offer. Others can accept it at any time until it ends.',
    raw: 'Everything that would be signed',
    rawHint: 'Invisible characters are written as ⟨U+…⟩.',
    warnings: {
      unlimited: 'Unlimited: all that your account holds of this, now or later, can be taken.',
      unknown:
        'This service does not recognize the effect of this signature. It could cost you everything in your account. Approve it only if you understand it fully.',
      power: 'A holder of this signature can act for your account. There is no limit on the amount.',
      long: 'This permission lasts for more than a day. It can be used at any time until it ends.',
      'no-chain': 'This names no network, so it may be valid on other networks.',
      'other-domain':
        'This is for another site than the one that asks. The recipient of the signature could pretend to be you there.',
      recipient: 'The proceeds of this trade go to another address, not to your account.',
      call: 'This service does not know the effect of this function of the contract. Approve it only if you trust the application and expected this.',
    },
    approve: 'Approve',
    deny: 'Deny',
    final: 'A decision is final. If you are not sure, deny it: nothing happens then.',
    signInFirst: 'To approve this, you sign in again first.',
    expiresAt: 'You can decide until',
    approvedTitle: 'Approved',
    approvedHint: (application) => `Go back to ${application}. It has one minute to continue.`,
    usedTitle: 'Approved and signed',
    usedHint: 'The application has used your approval. It cannot be used again.',
    deniedTitle: 'Denied',
    deniedHint: 'Nothing was signed.',
    expiredTitle: 'This request has expired',
    expiredHint: 'Nothing was signed. If you still want it, start again in the application.',
    changedTitle: 'This request has changed',
    changedHint: 'The request has changed since you opened it. Nothing was approved and nothing was signed.',
    lookAgain: 'View it again',
    otherTitle: 'This request is for another account',
    otherHint: 'Sign in with the account that you use in the application.',
    otherSignIn: 'Sign in with another account',
    missingTitle: 'There is no such request',
    missingHint: 'The link may be incomplete, or the request is too old. Start again in the application.',
    unreadable: 'This request cannot be shown, so it cannot be approved.',
    inbox: 'Requests for your approval',
    inboxHint: 'Applications ask here before they do something that needs your consent. Without it, nothing happens.',
    waiting: 'Waiting for you',
    nothingWaits: 'Nothing is waiting for you.',
    decided: 'Earlier requests',
    minutesLeft: (minutes) => `${minutes} min left`,
    states: { approved: 'approved', used: 'approved and signed', denied: 'denied', expired: 'expired' },
    link: (count) =>
      count === 1 ? 'One request is waiting for your approval.' : `${count} requests are waiting for your approval.`,
    look: 'View',
  },
  de: {
    title: 'Stimmen Sie dem zu?',
    sentences: {
      login: (domain) => ['Bei ', { strong: domain }, ' anmelden'],
      text: ['Diesen Text unterschreiben'],
      pay: (what, to) => [{ strong: what }, ' an ', { strong: to }, ' zahlen'],
      give: (what, to) => [{ strong: what }, ' an ', { strong: to }, ' übertragen'],
      allow: (who, what, until) => [
        'Erlauben, dass ',
        { strong: who },
        ...(until === null ? [' ohne Enddatum '] : [' bis ', { strong: until }, ' ']),
        { strong: what },
        ' von Ihrem Konto abbucht',
      ],
      revoke: (who, token) => [
        'Nicht mehr erlauben, dass ',
        { strong: who },
        ' ',
        { strong: token },
        ' von Ihrem Konto abbucht',
      ],
      cancel: ['Eine früher unterschriebene Zahlung abbrechen'],
      order: (what) => [{ strong: what }, ' zum Tausch anbieten'],
      orderOfNothing: ['Ein Tauschangebot unterschreiben'],
      vote: ['Abstimmen oder jemanden für Sie abstimmen lassen'],
      power: [{ strong: 'Andere für Ihr Konto handeln lassen' }],
      other: ['Daten unterschreiben, die dieser Dienst nicht versteht'],
      opaque: ['Daten unterschreiben, die niemand lesen kann'],
      call: (contract) => ['Ein Programm im Netzwerk ausführen: den Smart Contract ', { strong: contract }],
      several: (count) => ['Diese ', { strong: `${count} Vorgänge` }, ' zusammen ausführen'],
    },
    upTo: (what) => `höchstens ${what}`,
    step: (number, count) => `Schritt ${number} von ${count}`,
    unlimited: (token) => `unbegrenzt viel ${token}`,
    all: (token) => `Ihren gesamten Bestand an ${token}`,
    piece: (token, id) => `${token} #${id}`,
    claimed: (amount, symbol) => `${amount} „${symbol}“ (so nennt sich der Token selbst)`,
    claims: (symbol) => `„${symbol}“ (so nennt sich der Token selbst)`,
    nameless: (address) => `Token ${address}`,
    named: (name, address) => `„${name}“ (${address})`,
    coin: 'Währung des Netzwerks',
    smallest: (amount, token) => `${amount} kleinste Einheiten von ${token}`,
    askedBy: 'Wer fragt',
    askedAt: 'Wann',
    askedFrom: 'von der Internetadresse',
    account: 'Ihr Konto',
    network: 'Netzwerk',
    leaves: 'Geht von Ihrem Konto ab',
    mayTake: 'Darf abgebucht werden',
    mayNoLongerTake: 'Darf nicht mehr abgebucht werden',
    returns: 'Kommt auf Ihr Konto',
    returnsUnknown:
      'Dieser Dienst weiß nicht, wie viel, und ob etwas an andere Adressen geht. Prüfen Sie es in der Anwendung.',
    recipient: 'Empfänger',
    spender: 'Wer abbuchen darf',
    contract: 'Smart Contract',
    tokenContract: 'Smart Contract des Tokens',
    until: 'Bis',
    forever: 'Ohne Enddatum',
    neverUsed: 'eine Adresse, mit der Sie noch nie zu tun hatten',
    expected: 'Erwartete Änderung Ihres Kontos',
    expectedNothing: 'Die Simulation zeigt keine Änderung Ihrer Guthaben, abgesehen von Netzwerkgebühren.',
    expectedMore: (count) => `und ${count} weitere`,
    expectedHint:
      'Das ist eine Schätzung. Das tatsächliche Ergebnis kann abweichen, und Erlaubnisse zum Abbuchen von Token sind nicht enthalten.',
    wouldFail:
      'Ein Versuch mit dem neuesten Stand des Netzwerks ist fehlgeschlagen. Wenn Sie zustimmen, bewirkt es wahrscheinlich nichts.',
    notSimulated:
      'Die Wirkung konnte nicht berechnet werden. Diese Seite zeigt vielleicht nicht alles, was von Ihrem Konto abgeht oder dort ankommt.',
    unknownApplication: 'Eine unbekannte Anwendung',
    callOf: (selector) => `Funktion ${selector}, die dieser Dienst nicht kennt`,
    textIs: 'Der Text',
    textHint:
      'Ihre Unterschrift zeigt, dass Ihr Konto diesem Text zugestimmt hat. Manche Websites verstehen das als Anmeldung oder Auftrag: Stimmen Sie nur einem Text zu, den Sie verstehen.',
    orderHint: 'Mit Ihrer Unterschrift ist das ein bindendes Angebot. Wer es hat, kann es annehmen, bis es endet.',
    raw: 'Alles, was unterschrieben würde',
    rawHint: 'Unsichtbare Zeichen stehen als ⟨U+…⟩ da.',
    warnings: {
      unlimited: 'Unbegrenzt: Alles, was Ihr Konto jetzt oder später davon enthält, kann abgebucht werden.',
      unknown:
        'Dieser Dienst kann nicht erkennen, was diese Unterschrift erlaubt. Sie könnte Sie alles kosten, was auf Ihrem Konto ist. Stimmen Sie nur zu, wenn Sie genau wissen, was es ist.',
      power: 'Wer diese Unterschrift bekommt, kann für Ihr Konto handeln. Der Betrag ist nicht begrenzt.',
      long: 'Diese Erlaubnis gilt länger als einen Tag. Sie kann jederzeit genutzt werden, bis sie endet.',
      'no-chain': 'Hier ist kein Netzwerk genannt. Es gilt also vielleicht auch in anderen Netzwerken.',
      'other-domain':
        'Das ist für eine andere Website als die, die fragt. Wer die Unterschrift bekommt, könnte sich dort als Sie ausgeben.',
      recipient: 'Was dieser Tausch einbringt, geht an eine andere Adresse und nicht auf Ihr Konto.',
      call: 'Dieser Dienst weiß nicht, was diese Funktion des Smart Contracts tut. Stimmen Sie nur zu, wenn Sie der Anwendung vertrauen und das erwartet haben.',
    },
    approve: 'Zustimmen',
    deny: 'Ablehnen',
    final: 'Die Entscheidung ist endgültig. Wenn Sie unsicher sind, lehnen Sie ab: Dann geschieht nichts.',
    signInFirst: 'Um zuzustimmen, melden Sie sich vorher noch einmal an.',
    expiresAt: 'Sie können entscheiden bis',
    approvedTitle: 'Zugestimmt',
    approvedHint: (application) =>
      `Gehen Sie zurück zu ${application}. Die Anwendung hat eine Minute Zeit, um fortzufahren.`,
    usedTitle: 'Zugestimmt und unterschrieben',
    usedHint: 'Die Anwendung hat Ihre Zustimmung genutzt. Ein zweites Mal geht das nicht.',
    deniedTitle: 'Abgelehnt',
    deniedHint: 'Es wurde nichts unterschrieben.',
    expiredTitle: 'Diese Anfrage ist abgelaufen',
    expiredHint: 'Es wurde nichts unterschrieben. Wenn Sie es noch wollen, fangen Sie in der Anwendung noch einmal an.',
    changedTitle: 'Diese Anfrage hat sich geändert',
    changedHint:
      'Sie stimmt nicht mehr mit dem überein, was Ihnen angezeigt wurde. Es wurde nichts genehmigt und nichts unterschrieben.',
    lookAgain: 'Noch einmal ansehen',
    otherTitle: 'Diese Anfrage ist für ein anderes Konto',
    otherHint: 'Melden Sie sich mit dem Konto an, das Sie in der Anwendung nutzen.',
    otherSignIn: 'Mit einem anderen Konto anmelden',
    missingTitle: 'Diese Anfrage gibt es nicht',
    missingHint:
      'Der Link ist vielleicht unvollständig, oder die Anfrage ist zu alt. Fangen Sie in der Anwendung noch einmal an.',
    unreadable: 'Diese Anfrage kann nicht angezeigt werden. Deshalb können Sie ihr nicht zustimmen.',
    inbox: 'Anfragen an Sie',
    inboxHint:
      'Hier fragen Anwendungen, bevor sie etwas tun, das Ihre Zustimmung braucht. Ohne Zustimmung geschieht nichts.',
    waiting: 'Wartet auf Sie',
    nothingWaits: 'Es wartet nichts auf Sie.',
    decided: 'Frühere Anfragen',
    minutesLeft: (minutes) => `noch ${minutes} Min.`,
    states: {
      approved: 'zugestimmt',
      used: 'zugestimmt und unterschrieben',
      denied: 'abgelehnt',
      expired: 'abgelaufen',
    },
    link: (count) =>
      count === 1 ? 'Eine Anfrage wartet auf Ihre Zustimmung.' : `${count} Anfragen warten auf Ihre Zustimmung.`,
    look: 'Ansehen',
  },
  fr: {
    title: 'Donnez-vous votre accord\u202f?',
    sentences: {
      login: (domain) => ['Se connecter à ', { strong: domain }],
      text: ['Signer ce texte'],
      pay: (what, to) => ['Payer ', { strong: what }, ' à ', { strong: to }],
      give: (what, to) => ['Donner ', { strong: what }, ' à ', { strong: to }],
      allow: (who, what, until) => [
        'Autoriser ',
        { strong: who },
        ' à prélever ',
        { strong: what },
        ' sur votre compte',
        ...(until === null ? [', sans date de fin'] : [' jusqu’au ', { strong: until }]),
      ],
      revoke: (who, token) => [
        'Ne plus autoriser ',
        { strong: who },
        ' à prélever ',
        { strong: token },
        ' sur votre compte',
      ],
      cancel: ['Annuler un paiement signé auparavant'],
      order: (what) => ['Proposer ', { strong: what }, ' dans un échange'],
      orderOfNothing: ['Signer une offre d’échange'],
      vote: ['Voter, ou laisser quelqu’un voter pour vous'],
      power: [{ strong: 'Laisser d’autres agir pour votre compte' }],
      other: ['Signer des données que ce service ne comprend pas'],
      opaque: ['Signer des données que personne ne peut lire'],
      call: (contract) => ['Exécuter un programme sur le réseau\u202f: le contrat intelligent ', { strong: contract }],
      several: (count) => ['Faire ces ', { strong: `${count} opérations` }, ' ensemble'],
    },
    upTo: (what) => `au plus ${what}`,
    step: (number, count) => `Étape ${number} sur ${count}`,
    unlimited: (token) => `une quantité illimitée de ${token}`,
    all: (token) => `tout ce que vous possédez de ${token}`,
    piece: (token, id) => `${token} #${id}`,
    claimed: (amount, symbol) => `${amount} «\u202f${symbol}\u202f» (nom que le jeton se donne lui-même)`,
    claims: (symbol) => `«\u202f${symbol}\u202f» (nom que le jeton se donne lui-même)`,
    nameless: (address) => `jeton ${address}`,
    named: (name, address) => `«\u202f${name}\u202f» (${address})`,
    coin: 'monnaie du réseau',
    smallest: (amount, token) => `${amount} plus petites unités de ${token}`,
    askedBy: 'Qui demande',
    askedAt: 'Quand',
    askedFrom: 'depuis l’adresse internet',
    account: 'Votre compte',
    network: 'Réseau',
    leaves: 'Quitte votre compte',
    mayTake: 'Pourra être prélevé',
    mayNoLongerTake: 'Ne pourra plus être prélevé',
    returns: 'Arrive sur votre compte',
    returnsUnknown:
      'Ce service ne sait ni combien, ni si une partie va à d’autres adresses. Vérifiez-le dans l’application.',
    recipient: 'Destinataire',
    spender: 'Qui pourra prélever',
    contract: 'Contrat intelligent',
    tokenContract: 'Contrat du jeton',
    until: 'Jusqu’au',
    forever: 'Sans date de fin',
    neverUsed: 'une adresse que vous n’avez jamais utilisée',
    expected: 'Changement attendu sur votre compte',
    expectedNothing: 'La simulation ne montre aucun changement de vos soldes, hormis les frais de réseau.',
    expectedMore: (count) => `et ${count} de plus`,
    expectedHint:
      'Ceci est une estimation. Le résultat réel peut être différent, et les autorisations de prélever des jetons n’y figurent pas.',
    wouldFail:
      'Un essai sur l’état le plus récent du réseau a échoué. Si vous acceptez, cela n’aura probablement aucun effet.',
    notSimulated:
      'L’effet n’a pas pu être calculé. Cette page ne montre peut-être pas tout ce qui quitte votre compte ou y arrive.',
    unknownApplication: 'Une application inconnue',
    callOf: (selector) => `Fonction ${selector}, que ce service ne connaît pas`,
    textIs: 'Le texte',
    textHint:
      'Votre signature montre que votre compte a accepté ce texte. Certains sites y voient une connexion ou un ordre\u202f: n’acceptez qu’un texte que vous comprenez.',
    orderHint: 'Votre signature en fait une offre ferme. Qui l’a en main peut l’accepter jusqu’à sa fin.',
    raw: 'Tout ce qui serait signé',
    rawHint: 'Les caractères invisibles sont écrits ⟨U+…⟩.',
    warnings: {
      unlimited:
        'Illimité\u202f: tout ce que votre compte contient de ce jeton, maintenant ou plus tard, pourra être prélevé.',
      unknown:
        'Ce service ne peut pas dire ce que cette signature autorise. Vous pourriez perdre tout ce que contient votre compte. N’acceptez que si vous savez exactement de quoi il s’agit.',
      power: 'Qui obtient cette signature pourra agir pour votre compte. Le montant n’est pas limité.',
      long: 'Cette autorisation dure plus d’un jour. Elle peut être utilisée à tout moment jusqu’à sa fin.',
      'no-chain': 'Aucun réseau n’est nommé\u202f: cela peut donc valoir aussi sur d’autres réseaux.',
      'other-domain':
        'C’est pour un autre site que celui qui demande. Qui obtient la signature pourrait s’y faire passer pour vous.',
      recipient: 'Ce que rapporte cet échange va à une autre adresse, pas sur votre compte.',
      call: 'Ce service ne sait pas ce que fait cette fonction du contrat. N’acceptez que si vous avez confiance en l’application et que vous vous y attendiez.',
    },
    approve: 'Accepter',
    deny: 'Refuser',
    final: 'La décision est définitive. En cas de doute, refusez\u202f: il ne se passera rien.',
    signInFirst: 'Pour accepter, vous devrez d’abord vous reconnecter.',
    expiresAt: 'Vous pouvez décider jusqu’au',
    approvedTitle: 'Accepté',
    approvedHint: (application) => `Revenez à ${application}. L’application a une minute pour continuer.`,
    usedTitle: 'Accepté et signé',
    usedHint: 'L’application a utilisé votre accord. Il ne peut pas resservir.',
    deniedTitle: 'Refusé',
    deniedHint: 'Rien n’a été signé.',
    expiredTitle: 'Cette demande a expiré',
    expiredHint: 'Rien n’a été signé. Si vous le souhaitez encore, recommencez dans l’application.',
    changedTitle: 'Cette demande a changé',
    changedHint: 'Ce n’est plus celle qui vous a été montrée. Rien n’a été accepté ni signé.',
    lookAgain: 'La revoir',
    otherTitle: 'Cette demande est pour un autre compte',
    otherHint: 'Connectez-vous avec le compte que vous utilisez dans l’application.',
    otherSignIn: 'Se connecter avec un autre compte',
    missingTitle: 'Cette demande n’existe pas',
    missingHint: 'Le lien est peut-être incomplet, ou la demande trop ancienne. Recommencez dans l’application.',
    unreadable: 'Cette demande ne peut pas être affichée. Elle ne peut donc pas être acceptée.',
    inbox: 'Demandes d’accord',
    inboxHint:
      'Les applications demandent ici votre accord avant ce qui en a besoin. Sans votre accord, il ne se passe rien.',
    waiting: 'En attente',
    nothingWaits: 'Rien n’attend votre décision.',
    decided: 'Demandes précédentes',
    minutesLeft: (minutes) => `encore ${minutes} min`,
    states: { approved: 'accepté', used: 'accepté et signé', denied: 'refusé', expired: 'expiré' },
    link: (count) => (count === 1 ? 'Une demande attend votre accord.' : `${count} demandes attendent votre accord.`),
    look: 'Voir',
  },
  es: {
    title: '¿Apruebas esto?',
    sentences: {
      login: (domain) => ['Iniciar sesión en ', { strong: domain }],
      text: ['Firmar este texto'],
      pay: (what, to) => ['Pagar ', { strong: what }, ' a ', { strong: to }],
      give: (what, to) => ['Entregar ', { strong: what }, ' a ', { strong: to }],
      allow: (who, what, until) => [
        'Permitir que ',
        { strong: who },
        ' retire ',
        { strong: what },
        ' de tu cuenta',
        ...(until === null ? [', sin fecha de fin'] : [' hasta el ', { strong: until }]),
      ],
      revoke: (who, token) => [
        'Dejar de permitir que ',
        { strong: who },
        ' retire ',
        { strong: token },
        ' de tu cuenta',
      ],
      cancel: ['Cancelar un pago que firmaste antes'],
      order: (what) => ['Ofrecer ', { strong: what }, ' en un intercambio'],
      orderOfNothing: ['Firmar una oferta de intercambio'],
      vote: ['Votar, o dejar que alguien vote por ti'],
      power: [{ strong: 'Dejar que otros actúen por tu cuenta' }],
      other: ['Firmar datos que este servicio no entiende'],
      opaque: ['Firmar datos que nadie puede leer'],
      call: (contract) => ['Ejecutar un programa en la red: el contrato inteligente ', { strong: contract }],
      several: (count) => ['Hacer estas ', { strong: `${count} operaciones` }, ' juntas'],
    },
    upTo: (what) => `como máximo ${what}`,
    step: (number, count) => `Paso ${number} de ${count}`,
    unlimited: (token) => `una cantidad ilimitada de ${token}`,
    all: (token) => `todo lo que tienes de ${token}`,
    piece: (token, id) => `${token} #${id}`,
    claimed: (amount, symbol) => `${amount} «${symbol}» (así se llama el token a sí mismo)`,
    claims: (symbol) => `«${symbol}» (así se llama el token a sí mismo)`,
    nameless: (address) => `el token ${address}`,
    named: (name, address) => `«${name}» (${address})`,
    coin: 'moneda de la red',
    smallest: (amount, token) => `${amount} unidades mínimas de ${token}`,
    askedBy: 'Quién lo pide',
    askedAt: 'Cuándo',
    askedFrom: 'desde la dirección de internet',
    account: 'Tu cuenta',
    network: 'Red',
    leaves: 'Sale de tu cuenta',
    mayTake: 'Se podrá retirar de tu cuenta',
    mayNoLongerTake: 'Ya no se podrá retirar',
    returns: 'Llega a tu cuenta',
    returnsUnknown:
      'Este servicio no sabe cuánto, ni si una parte va a otras direcciones. Compruébalo en la aplicación.',
    recipient: 'Destinatario',
    spender: 'Quién podrá retirarlo',
    contract: 'Contrato inteligente',
    tokenContract: 'Contrato del token',
    until: 'Hasta',
    forever: 'Sin fecha de fin',
    neverUsed: 'una dirección que nunca has usado',
    expected: 'Cambio previsto en tu cuenta',
    expectedNothing: 'La simulación no muestra cambios en tus saldos, salvo la comisión de red.',
    expectedMore: (count) => `y ${count} más`,
    expectedHint:
      'Es una estimación. El resultado real puede ser distinto, y no incluye los permisos para retirar tokens.',
    wouldFail:
      'Una prueba con el estado más reciente de la red ha fallado. Si lo apruebas, es probable que no tenga ningún efecto.',
    notSimulated:
      'No se pudo calcular el efecto. Puede que esta página no muestre todo lo que sale de tu cuenta o llega a ella.',
    unknownApplication: 'Una aplicación desconocida',
    callOf: (selector) => `Función ${selector}, que este servicio no conoce`,
    textIs: 'El texto',
    textHint:
      'Tu firma muestra que tu cuenta aceptó este texto. Algunos sitios lo toman como un inicio de sesión o una orden: aprueba solo un texto que entiendas.',
    orderHint: 'Tu firma lo convierte en una oferta vinculante. Quien la tenga puede aceptarla hasta que termine.',
    raw: 'Todo lo que se firmaría',
    rawHint: 'Los caracteres invisibles se escriben como ⟨U+…⟩.',
    warnings: {
      unlimited: 'Ilimitado: se podrá retirar todo lo que tu cuenta tenga de esto, ahora o más adelante.',
      unknown:
        'Este servicio no puede saber qué permite esta firma. Podría costarte todo lo que hay en tu cuenta. Apruébalo solo si sabes exactamente qué es.',
      power: 'Quien consiga esta firma podrá actuar por tu cuenta. El importe no tiene límite.',
      long: 'Este permiso dura más de un día. Se puede usar en cualquier momento hasta que termine.',
      'no-chain': 'No nombra ninguna red, así que puede valer también en otras redes.',
      'other-domain':
        'Es para un sitio distinto del que lo pide. Quien consiga la firma podría hacerse pasar por ti allí.',
      recipient: 'Lo que se obtiene en este intercambio va a otra dirección, no a tu cuenta.',
      call: 'Este servicio no sabe qué hace esta función del contrato. Apruébala solo si confías en la aplicación y lo esperabas.',
    },
    approve: 'Aprobar',
    deny: 'Rechazar',
    final: 'La decisión es definitiva. Si tienes dudas, rechaza: entonces no pasa nada.',
    signInFirst: 'Para aprobarlo, antes tendrás que iniciar sesión otra vez.',
    expiresAt: 'Puedes decidir hasta',
    approvedTitle: 'Aprobado',
    approvedHint: (application) => `Vuelve a ${application}. Tiene un minuto para continuar.`,
    usedTitle: 'Aprobado y firmado',
    usedHint: 'La aplicación ya ha usado tu aprobación. No se puede usar otra vez.',
    deniedTitle: 'Rechazado',
    deniedHint: 'No se ha firmado nada.',
    expiredTitle: 'Esta solicitud ha caducado',
    expiredHint: 'No se ha firmado nada. Si todavía lo quieres, empieza de nuevo en la aplicación.',
    changedTitle: 'Esta solicitud ha cambiado',
    changedHint: 'Ya no es la que se te mostró. No se ha aprobado ni firmado nada.',
    lookAgain: 'Verla otra vez',
    otherTitle: 'Esta solicitud es para otra cuenta',
    otherHint: 'Inicia sesión con la cuenta que usas en la aplicación.',
    otherSignIn: 'Iniciar sesión con otra cuenta',
    missingTitle: 'Esta solicitud no existe',
    missingHint:
      'Puede que el enlace esté incompleto o que la solicitud sea demasiado antigua. Empieza de nuevo en la aplicación.',
    unreadable: 'Esta solicitud no se puede mostrar, así que no se puede aprobar.',
    inbox: 'Solicitudes de aprobación',
    inboxHint: 'Aquí preguntan las aplicaciones antes de hacer algo que necesita tu aprobación. Sin ella no pasa nada.',
    waiting: 'Pendientes',
    nothingWaits: 'No hay nada pendiente.',
    decided: 'Solicitudes anteriores',
    minutesLeft: (minutes) => `quedan ${minutes} min`,
    states: { approved: 'aprobada', used: 'aprobada y firmada', denied: 'rechazada', expired: 'caducada' },
    link: (count) =>
      count === 1 ? 'Una solicitud espera tu aprobación.' : `${count} solicitudes esperan tu aprobación.`,
    look: 'Ver',
  },
  ja: {
    title: 'これを承認しますか',
    sentences: {
      login: (domain) => [{ strong: domain }, ' にサインインします'],
      text: ['この文章に署名します'],
      pay: (what, to) => [{ strong: to }, ' に ', { strong: what }, ' を支払います'],
      give: (what, to) => [{ strong: to }, ' に ', { strong: what }, ' を渡します'],
      allow: (who, what, until) => [
        { strong: who },
        ' が',
        ...(until === null ? ['期限なしで'] : [' ', { strong: until }, ' まで']),
        'あなたのアカウントから ',
        { strong: what },
        ' を引き出すことを許可します',
      ],
      revoke: (who, token) => [
        { strong: who },
        ' があなたのアカウントから ',
        { strong: token },
        ' を引き出す許可を取り消します',
      ],
      cancel: ['以前に署名した支払いを取り消します'],
      order: (what) => [{ strong: what }, ' を取引に出します'],
      orderOfNothing: ['取引の申し出に署名します'],
      vote: ['投票するか、ほかの人に投票を任せます'],
      power: [{ strong: 'あなたのアカウントの操作をほかの人に任せます' }],
      other: ['このサービスが理解できないデータに署名します'],
      opaque: ['誰にも読めないデータに署名します'],
      call: (contract) => ['ネットワーク上のプログラム（スマートコントラクト ', { strong: contract }, '）を実行します'],
      several: (count) => ['次の ', { strong: `${count} 件` }, ' をまとめて行います'],
    },
    upTo: (what) => `最大 ${what}`,
    step: (number, count) => `手順 ${number} / ${count}`,
    unlimited: (token) => `無制限の ${token}`,
    all: (token) => `あなたが持つすべての ${token}`,
    piece: (token, id) => `${token} #${id}`,
    claimed: (amount, symbol) => `「${symbol}」と名乗るトークン ${amount}`,
    claims: (symbol) => `「${symbol}」と名乗るトークン`,
    nameless: (address) => `トークン ${address}`,
    named: (name, address) => `「${name}」（${address}）`,
    coin: 'ネットワークの通貨',
    smallest: (amount, token) => `${token} の最小単位 ${amount}`,
    askedBy: 'リクエスト元',
    askedAt: '日時',
    askedFrom: '送信元のインターネットアドレス',
    account: 'あなたのアカウント',
    network: 'ネットワーク',
    leaves: 'アカウントから出るもの',
    mayTake: '引き出せるもの',
    mayNoLongerTake: '引き出せなくなるもの',
    returns: 'アカウントに入るもの',
    returnsUnknown:
      'いくら入るのか、ほかのアドレスにも届くのか、このサービスにはわかりません。アプリケーションで確認してください。',
    recipient: '送り先',
    spender: '引き出せる相手',
    contract: 'スマートコントラクト',
    tokenContract: 'トークンのコントラクト',
    until: '期限',
    forever: '期限なし',
    neverUsed: 'これまで使ったことのないアドレス',
    expected: 'アカウントに予想される変化',
    expectedNothing: 'シミュレーションでは、ネットワーク手数料を除き、残高は変わりません。',
    expectedMore: (count) => `ほか ${count} 件`,
    expectedHint: 'これは見積もりです。実際の結果は異なることがあり、トークンを引き出す許可は含まれていません。',
    wouldFail: 'ネットワークの最新の状態で試したところ、失敗しました。承認しても、おそらく何も起こりません。',
    notSimulated:
      '結果を計算できませんでした。アカウントから出るものと入るもののすべてが表示されているとは限りません。',
    unknownApplication: '不明なアプリケーション',
    callOf: (selector) => `このサービスが知らない機能 ${selector}`,
    textIs: '文章',
    textHint:
      '署名は、あなたのアカウントがこの文章に同意したことを示します。サイトによっては、サインインや注文として扱われます。理解できる文章だけを承認してください。',
    orderHint: '署名すると、取り消せない申し出になります。これを持つ人は、期限までいつでも受けることができます。',
    raw: '署名される内容のすべて',
    rawHint: '目に見えない文字は ⟨U+…⟩ と表示します。',
    warnings: {
      unlimited: '無制限：あなたのアカウントにあるこのトークンは、今後増える分も含めてすべて引き出せます。',
      unknown:
        'この署名で何が許可されるのか、このサービスにはわかりません。アカウントにあるものをすべて失うおそれがあります。内容を正確に知っている場合だけ承認してください。',
      power: 'この署名を手に入れた人は、金額に関係なく、あなたのアカウントとして操作できます。',
      long: 'この許可は 1 日を超えて有効です。期限までいつでも使えます。',
      'no-chain': 'ネットワークの指定がないため、ほかのネットワークでも有効になるおそれがあります。',
      'other-domain':
        'これはリクエスト元とは別のサイトのためのものです。署名を手に入れた人が、そのサイトであなたになりすますおそれがあります。',
      recipient: 'この取引で得られるものは、あなたのアカウントではなく別のアドレスに届きます。',
      call: 'コントラクトのこの機能が何をするのか、このサービスにはわかりません。アプリケーションを信頼し、心当たりがある場合だけ承認してください。',
    },
    approve: '承認する',
    deny: '拒否する',
    final: '一度決めると取り消せません。迷ったら拒否してください。何も起こりません。',
    signInFirst: '承認するには、先にもう一度サインインします。',
    expiresAt: '回答の期限',
    approvedTitle: '承認しました',
    approvedHint: (application) =>
      `${application} に戻ってください。アプリケーションは 1 分以内に続行する必要があります。`,
    usedTitle: '承認され、署名されました',
    usedHint: 'アプリケーションがあなたの承認を使いました。もう一度使うことはできません。',
    deniedTitle: '拒否しました',
    deniedHint: '何も署名されていません。',
    expiredTitle: 'このリクエストは期限切れです',
    expiredHint: '何も署名されていません。必要な場合は、アプリケーションでやり直してください。',
    changedTitle: 'このリクエストは変更されました',
    changedHint: '表示した内容と違うものになりました。何も承認されず、何も署名されていません。',
    lookAgain: 'もう一度見る',
    otherTitle: 'このリクエストは別のアカウントのものです',
    otherHint: 'アプリケーションで使っているアカウントでサインインしてください。',
    otherSignIn: '別のアカウントでサインイン',
    missingTitle: 'このリクエストは見つかりません',
    missingHint: 'リンクが不完全か、リクエストが古すぎます。アプリケーションでやり直してください。',
    unreadable: 'このリクエストは表示できないため、承認できません。',
    inbox: '承認のリクエスト',
    inboxHint:
      'あなたの承認が必要なことを行う前に、アプリケーションはここで確認を求めます。承認しなければ何も起こりません。',
    waiting: '回答待ち',
    nothingWaits: '回答待ちのリクエストはありません。',
    decided: 'これまでのリクエスト',
    minutesLeft: (minutes) => `残り ${minutes} 分`,
    states: { approved: '承認済み', used: '承認・署名済み', denied: '拒否', expired: '期限切れ' },
    link: (count) => `${count} 件のリクエストがあなたの承認を待っています。`,
    look: '見る',
  },
}

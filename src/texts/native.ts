/** Texts of the pages about native currency that came or went. */
type NativeTexts = {
  /** if the history does not index it */
  notListed: string
  listedFrom: (block: number) => string
  internalFrom: (block: number) => string
  noInternal: string
  internal: string
  feeAlone: string
  minted: string
  unstaked: string
  reward: string
}

export const native: Record<'en' | 'de' | 'fr' | 'es' | 'ja', NativeTexts> = {
  en: {
    notListed:
      'Listed is what people of this service sent each other. What comes from elsewhere shows in your balance only.',
    listedFrom: (block: number) =>
      `Complete from block ${block} on. Of what was before, what people of this service sent each other is listed.`,
    internalFrom: (block: number) => `What contracts paid out is listed from block ${block} on.`,
    noInternal: 'What contracts pay out is not listed on this network: it shows in your balance only.',
    internal: 'by a contract',
    feeAlone: 'fee of a transaction',
    minted: 'from a deposit',
    unstaked: 'withdrawn from staking',
    reward: 'reward for a block',
  },
  de: {
    notListed:
      'Aufgeführt sind Coins, die Personen mit einem Konto bei diesem Dienst einander gesendet haben. Was von anderswo kommt, sehen Sie nur an Ihrem Guthaben.',
    listedFrom: (block: number) =>
      `Vollständig ab Block ${block}. Aus der Zeit davor ist aufgeführt, was Personen mit einem Konto bei diesem Dienst einander gesendet haben.`,
    internalFrom: (block: number) => `Was Smart Contracts ausgezahlt haben, ist ab Block ${block} aufgeführt.`,
    noInternal:
      'Was Smart Contracts auszahlen, ist in diesem Netz nicht aufgeführt: Sie sehen es nur an Ihrem Guthaben.',
    internal: 'durch einen Smart Contract',
    feeAlone: 'Gebühr einer Transaktion',
    minted: 'aus einer Einzahlung',
    unstaked: 'aus dem Staking ausgezahlt',
    reward: 'Belohnung für einen Block',
  },
  fr: {
    notListed:
      'La cryptomonnaie que des personnes de ce service se sont envoyée est listée. Ce qui vient d’ailleurs n’apparaît que dans votre solde.',
    listedFrom: (block: number) =>
      `La liste est complète à partir du bloc ${block}. Avant, seul ce que des personnes de ce service se sont envoyé est listé.`,
    internalFrom: (block: number) => `Ce que des contrats intelligents ont versé est listé à partir du bloc ${block}.`,
    noInternal:
      'Ce que versent les contrats intelligents n’est pas listé sur ce réseau\u202f: cela n’apparaît que dans votre solde.',
    internal: 'par un contrat intelligent',
    feeAlone: 'frais d’une transaction',
    minted: 'issu d’un dépôt',
    unstaked: 'retiré du staking',
    reward: 'récompense pour un bloc',
  },
  es: {
    notListed:
      'Aparecen las monedas que se han enviado entre sí personas de este servicio. Lo que viene de fuera solo se ve en tu saldo.',
    listedFrom: (block: number) =>
      `La lista está completa desde el bloque ${block}. De antes aparece lo que se enviaron entre sí personas de este servicio.`,
    internalFrom: (block: number) => `Lo que pagaron los contratos inteligentes aparece desde el bloque ${block}.`,
    noInternal: 'En esta red no aparece lo que pagan los contratos inteligentes: solo se ve en tu saldo.',
    internal: 'por un contrato inteligente',
    feeAlone: 'comisión de una transacción',
    minted: 'procedente de un depósito',
    unstaked: 'retirado del staking',
    reward: 'recompensa por un bloque',
  },
  ja: {
    notListed:
      'このサービスを利用する人どうしで送ったコインが表示されます。外部から届いたものは残高にだけ反映されます。',
    listedFrom: (block: number) =>
      `ブロック ${block} 以降はすべて表示されます。それ以前は、このサービスを利用する人どうしで送ったコインが表示されます。`,
    internalFrom: (block: number) => `スマートコントラクトが送ったコインは、ブロック ${block} 以降が表示されます。`,
    noInternal: 'このネットワークでは、スマートコントラクトが送ったコインは表示されず、残高にだけ反映されます。',
    internal: 'スマートコントラクト経由',
    feeAlone: 'トランザクションの手数料',
    minted: '入金によるもの',
    unstaked: 'ステーキングからの引き出し',
    reward: 'ブロックの報酬',
  },
}

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
    notListed: 'This list shows payments between users of this service. Other payments appear only in your balance.',
    listedFrom: (block: number) =>
      `Complete since block ${block}. Earlier entries show only payments between users of this service.`,
    internalFrom: (block: number) => `Payments by contracts are listed since block ${block}.`,
    noInternal: 'Payments by contracts are not listed on this network. They appear only in your balance.',
    internal: 'by a contract',
    feeAlone: 'fee of a transaction',
    minted: 'from a deposit',
    unstaked: 'withdrawn from staking',
    reward: 'reward for a block',
  },
  de: {
    notListed:
      'Diese Liste zeigt Zahlungen zwischen Nutzern dieses Dienstes. Andere Zahlungen sehen Sie nur an Ihrem Guthaben.',
    listedFrom: (block: number) =>
      `Vollständig ab Block ${block}. Davor sind nur Zahlungen zwischen Nutzern dieses Dienstes aufgeführt.`,
    internalFrom: (block: number) => `Zahlungen von Smart Contracts sind ab Block ${block} aufgeführt.`,
    noInternal:
      'Zahlungen von Smart Contracts sind in diesem Netzwerk nicht aufgeführt. Sie sehen sie nur an Ihrem Guthaben.',
    internal: 'durch einen Smart Contract',
    feeAlone: 'Gebühr einer Transaktion',
    minted: 'aus einer Einzahlung',
    unstaked: 'aus dem Staking ausgezahlt',
    reward: 'Belohnung für einen Block',
  },
  fr: {
    notListed:
      'Cette liste contient les paiements entre utilisateurs de ce service. Les autres paiements n’apparaissent que dans votre solde.',
    listedFrom: (block: number) =>
      `La liste est complète à partir du bloc ${block}. Avant, elle ne contient que les paiements entre utilisateurs de ce service.`,
    internalFrom: (block: number) => `Les paiements des contrats intelligents sont listés à partir du bloc ${block}.`,
    noInternal:
      'Les paiements des contrats intelligents ne sont pas listés sur ce réseau. Ils n’apparaissent que dans votre solde.',
    internal: 'par un contrat intelligent',
    feeAlone: 'frais d’une transaction',
    minted: 'issu d’un dépôt',
    unstaked: 'retiré du staking',
    reward: 'récompense pour un bloc',
  },
  es: {
    notListed: 'Esta lista muestra los pagos entre usuarios de este servicio. Los demás pagos solo se ven en tu saldo.',
    listedFrom: (block: number) =>
      `La lista está completa desde el bloque ${block}. Antes solo muestra los pagos entre usuarios de este servicio.`,
    internalFrom: (block: number) => `Los pagos de contratos inteligentes aparecen desde el bloque ${block}.`,
    noInternal: 'En esta red no aparecen los pagos de contratos inteligentes. Solo se ven en tu saldo.',
    internal: 'por un contrato inteligente',
    feeAlone: 'comisión de una transacción',
    minted: 'procedente de un depósito',
    unstaked: 'retirado del staking',
    reward: 'recompensa por un bloque',
  },
  ja: {
    notListed: 'この一覧には、このサービスの利用者間の支払いが表示されます。その他の支払いは残高にだけ反映されます。',
    listedFrom: (block: number) =>
      `ブロック ${block} 以降はすべて表示されます。それ以前は、このサービスの利用者間の支払いだけが表示されます。`,
    internalFrom: (block: number) => `スマートコントラクトによる支払いは、ブロック ${block} 以降が表示されます。`,
    noInternal: 'このネットワークでは、スマートコントラクトによる支払いは表示されず、残高にだけ反映されます。',
    internal: 'スマートコントラクト経由',
    feeAlone: 'トランザクションの手数料',
    minted: '入金によるもの',
    unstaked: 'ステーキングからの引き出し',
    reward: 'ブロックの報酬',
  },
}
